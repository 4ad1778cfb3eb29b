import AuditChain
import DaemonAPI
import Encodings
import Foundation
import Ledger
import Logging
import PaymentToken
import UsageRecording

/// Prunes claims that are no longer needed, once an hour.
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
            case .clockUnconfirmed:
                logger.info(
                    "claims are not pruned before the next release of Apple Pay, because only that can confirm the clock",
                    metadata: ["clock": "\(RFC3339.string(now))"])
            }
        } catch {
            logger.error("claims were not pruned", metadata: ["reason": "\(error)"])
        }
    }
}

/// Marks undecided approvals as expired when their time has passed, and writes an audit record of each expiry. Removes
/// old approvals that have ended from the list. This task runs at the start, and then once a minute.
///
/// Late approvals are refused even if this task fails, since each decision checks the clock.
struct ApprovalExpiry: Sendable {
    let ledger: any Ledger
    let clock: WallClock
    let logger: Logger

    /// The time for which an approval that has ended stays on the list after its expiry. The record keeps the
    /// approval's audit records.
    static let listed = DurationText.days(30)
    /// The maximum number of ended approvals on the list. The number of open approvals is limited for each account.
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
            // The ledger's fault is logged elsewhere. An expired approval cannot be used in any case, since decisions check
            // the clock.
            logger.info("approvals could not be checked for expiry", metadata: ["reason": "\(error)"])
        }
    }
}
