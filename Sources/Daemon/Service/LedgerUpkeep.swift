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

/// Ends what nobody decided in time, with a record, and drops from the list what ended long ago: at start and then once
/// a minute.
///
/// That nothing is approved too late does not depend on it: every decision looks at the clock.
struct ApprovalExpiry: Sendable {
    let ledger: any Ledger
    let clock: WallClock
    let logger: Logger

    /// What has ended is listed so long after the time until which it could be decided. The record keeps it for ever.
    static let listed = DurationText.days(30)
    /// And at most so many of those. Open ones are bounded by account.
    static let listedCount = 500

    func start() -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                await run()
                try? await Task.sleep(for: .seconds(60))
            }
        }
    }

    func run() async {
        let now = clock.now()
        do throws(LedgerFailure) {
            let expired = try await ledger.expireApprovals(now: now)
            if expired > 0 { logger.notice("approvals expired", metadata: ["approvals": "\(expired)"]) }
            let forgotten = try await ledger.forgetApprovals(
                expiredBefore: now.addingTimeInterval(-Double(Self.listed.components.seconds)),
                keeping: Self.listedCount)
            if forgotten > 0 { logger.info("old approvals removed", metadata: ["approvals": "\(forgotten)"]) }
        } catch {
            // Why the ledger does not serve is said elsewhere; they are expired all the same.
            logger.info("approvals were not looked through", metadata: ["reason": "\(error)"])
        }
    }
}
