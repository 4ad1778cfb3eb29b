import AuditChain
import DaemonAPI
import Encodings
import Foundation
import Ledger
import Logging
import PaymentToken

/// Removes claims that nobody can need any more, once an hour.
struct ClaimPruning: Sendable {
    let ledger: any Ledger
    let live: LiveConfiguration
    let clock: WallClock
    let logger: Logger

    func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(3600)) { await prune() }
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

/// Expires approvals that nobody decided in time, with an audit record, and removes from the list what ended long ago: at
/// start and then once a minute.
///
/// That nothing is approved too late does not depend on it, since every decision looks at the clock.
struct ApprovalExpiry: Sendable {
    let ledger: any Ledger
    let clock: WallClock
    let logger: Logger

    /// For how long an approval that ended stays on the list after its expiry. The audit record keeps it for ever.
    static let listed = DurationText.days(30)
    /// At most so many that ended stay on the list. Open ones are bounded by account.
    static let listedCount = 500

    func start() -> Task<Void, Never> {
        Task.repeating(every: .seconds(60)) { await run() }
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
            // The ledger's fault is logged elsewhere. Undecided approvals are expired all the same, since decisions look at
            // the clock.
            logger.info("approvals were not looked through", metadata: ["reason": "\(error)"])
        }
    }
}
