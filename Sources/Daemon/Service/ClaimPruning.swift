import AuditChain
import Foundation
import Ledger
import Logging
import PaymentToken

/// Forgets claims that nobody can need any more, once an hour.
struct ClaimPruning: Sendable {
    let ledger: any Ledger
    let live: LiveConfiguration
    let logger: Logger

    func start() -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                await prune()
                try? await Task.sleep(for: .seconds(3600))
            }
        }
    }

    private func prune() async {
        guard let retention = live.claimRetention else { return }
        do throws(LedgerFailure) {
            let now = Date()
            let removed = try await ledger.prune(retention, now: now)
            guard removed > 0 else { return }
            logger.info("claims pruned", metadata: ["claims": "\(removed)"])
            let before = now.addingTimeInterval(-Double(retention.age.components.seconds))
            ledger.note(
                AuditRecord(
                    time: AuditTime(now), event: .claimsPrune(count: removed, before: AuditTime(before))))
        } catch {
            logger.error("claims were not pruned", metadata: ["reason": "\(error)"])
        }
    }
}
