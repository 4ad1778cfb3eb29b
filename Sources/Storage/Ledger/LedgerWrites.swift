import AuditChain
import DatabaseKit
import Foundation
import Synchronization

typealias LedgerDeadlines = Deadlines<LedgerFailure>
typealias LedgerCall<Answer: Sendable> = Call<Answer, LedgerFailure>

extension CommitQueue where Write.Failure == LedgerFailure {
    /// The queue of a ledger's writes, in which the notes are audit records.
    ///
    /// - Parameter recording: a write of a record that no caller waits for.
    convenience init(
        capacity: Int, deadlines: LedgerDeadlines, releases: ReleasesUnderWay,
        observe: @escaping @Sendable (LedgerEvent) -> Void,
        recording: @escaping @Sendable (AuditRecord, _ fail: @escaping @Sendable (LedgerFailure) -> Void) -> Write
    ) {
        self.init(
            capacity: capacity, deadlines: deadlines, moment: releases.worthWaiting(with:),
            counting: { dropped, fail in
                recording(
                    AuditRecord(
                        time: AuditTime(Date()),
                        event: .recordsDropped(count: dropped.count, since: AuditTime(dropped.since)),
                        outcome: .refused(.ledgerUnavailable)), fail)
            }, observeDrop: { observe(.dropped(notes: 1)) })
    }
}

/// How many releases are on their way to the ledger: what they are for is with the HSM or has just come back.
///
/// A commit costs the same for one release as for many. Under load the next ones are there within a moment, so the writer
/// waits for them: for 40 µs each, which is less than a tenth of what each has waited for the HSM already, and 5 ms
/// at most. A release that is alone waits for nobody.
public final class ReleasesUnderWay: Sendable {
    private static let moment = Duration.microseconds(40)
    private static let longest = Duration.milliseconds(5)

    private let count = Atomic(0)

    public init() {}

    /// To be followed by ``end()``, whatever becomes of it.
    public func begin() { count.add(1, ordering: .relaxed) }

    public func end() { count.subtract(1, ordering: .relaxed) }

    /// - Parameter waiting: how many writes wait for the writer; releases among them do not come again.
    @Sendable func worthWaiting(with waiting: Int) -> Duration? {
        let others = count.load(ordering: .relaxed) - waiting
        guard waiting > 0, others > 0 else { return nil }
        return min(Self.moment * others, Self.longest)
    }
}

/// Where the chain ended when this process last wrote: one head, or two when it is not known whether a commit took place.
///
/// Nobody else writes, so the chain ends there still when the next transaction begins. Where it does not, another
/// program has changed the ledger or copied an older one over it, and with the records claims may be gone.
final class LastWrittenHead: Sendable {
    /// Empty until the first commit.
    private let ends = Mutex<[ChainHead]>([])

    func set(_ ends: [ChainHead]) {
        self.ends.withLock { $0 = ends }
    }

    /// The end of what is known to be written; nil before the first commit.
    var known: ChainHead? { ends.withLock { $0.first } }

    /// Whether the chain may end there.
    func permits(_ head: ChainHead) -> Bool { ends.withLock { $0.isEmpty || $0.contains(head) } }

    /// - Returns: `head`, when the chain may end there.
    func checked(_ head: ChainHead) throws(LedgerFailure) -> ChainHead {
        guard permits(head) else {
            throw .unavailable(
                reason: "Its audit record does not end where this process left it: another program changed the ledger, "
                    + "or copied an older one over it, so nothing is written. Stop the daemon, and put back the ledger "
                    + "as it was; the next start compares it with the HSM token.")
        }
        return head
    }
}
