package import AuditChain
package import DatabaseKit
import Foundation
import Locks

package typealias LedgerDeadlines = Deadlines<LedgerFailure>
package typealias LedgerCall<Answer: Sendable> = Call<Answer, LedgerFailure>

extension CommitQueue where Write.Failure == LedgerFailure {
    /// Creates the queue of a ledger's writes, in which the notes (writes for which no caller waits) are audit records.
    ///
    /// - Parameter recording: creates the write of an audit record for which no caller waits.
    package convenience init(
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

/// Counts the releases that will soon reach the ledger: those that the HSM is processing or has just processed.
///
/// A commit costs the same for one release as for many. Under load, the next releases arrive almost immediately, so the
/// writer waits for them before a commit. It waits 40 µs for each counted release that is not queued yet, and 5 ms at
/// most. Each release has already waited more than ten times as long for the HSM. If no other release is counted, the
/// writer commits at once.
public final class ReleasesUnderWay: Sendable {
    private static let waitForEach = Duration.microseconds(40)
    private static let maximumWait = Duration.milliseconds(5)

    private let count = Atomic(0)

    public init() {}

    /// Counts a release; ``end()`` must follow, even after a failure.
    public func begin() { count.add(1, ordering: .relaxed) }

    public func end() { count.subtract(1, ordering: .relaxed) }

    /// Returns how long the writer should wait for further releases; nil if it should commit now.
    ///
    /// - Parameter waiting: the number of writes queued for the writer. The count still includes the releases among
    ///   them, although the writer need not wait for those.
    @Sendable func worthWaiting(with waiting: Int) -> Duration? {
        let others = count.load(ordering: .relaxed) - waiting
        guard waiting > 0, others > 0 else { return nil }
        return min(Self.waitForEach * others, Self.maximumWait)
    }
}

/// The possible ends of the chain after this process's last write: one head, or two heads if the commit's outcome is
/// unknown.
///
/// There is no other writer, so the next transaction must find the chain ending in one of these heads. Otherwise
/// another program has changed the ledger or replaced it with an older copy. Claims may then be gone along with the
/// records.
package final class LastWrittenHead: Sendable {
    /// Empty until the first commit.
    private let ends = Mutex<[ChainHead]>([])

    package init() {}

    package func set(_ ends: [ChainHead]) {
        self.ends.withLock { $0 = ends }
    }

    /// The last head that is certainly stored; nil before the first commit.
    package var known: ChainHead? { ends.withLock { $0.first } }

    /// Returns true if the chain may end with this head.
    package func permits(_ head: ChainHead) -> Bool { ends.withLock { $0.isEmpty || $0.contains(head) } }

    /// Returns `head` if the chain may end with it, and throws otherwise.
    package func checked(_ head: ChainHead) throws(LedgerFailure) -> ChainHead {
        guard permits(head) else {
            throw .unavailable(
                reason: "Its audit record does not end where this process left it: another program changed the ledger, "
                    + "or replaced it with an older copy, so nothing is written. Stop the daemon and restore the right "
                    + "ledger; the next start compares it with the HSM token.")
        }
        return head
    }
}
