import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Logging
import PaymentToken

/// Forgets claims that nobody can need any more, once an hour.
struct ClaimPruning: Sendable {
    let ledger: any Ledger
    let live: LiveConfiguration
    let clock: WallClock
    let logger: Logger

    func start() -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                await prune()
                try? await Task.sleep(for: .seconds(3600))
            }
        }
    }

    func prune() async {
        guard let retention = live.claimRetention else { return }
        do throws(LedgerFailure) {
            let now = clock.now()
            switch try await ledger.prune(retention, now: now) {
            case .pruned(count: 0, before: _): return
            case .pruned(let removed, let before):
                logger.info("claims pruned", metadata: ["claims": "\(removed)"])
                ledger.note(
                    AuditRecord(
                        time: AuditTime(now), event: .claimsPrune(count: removed, before: AuditTime(before))))
            case .clockUnconfirmed(let newest):
                logger.info(
                    "claims are not pruned before the next release: nothing else vouches for the clock",
                    metadata: ["clock": "\(RFC3339.string(now))", "newest.claim": "\(RFC3339.string(newest))"])
            }
        } catch {
            logger.error("claims were not pruned", metadata: ["reason": "\(error)"])
        }
    }
}
