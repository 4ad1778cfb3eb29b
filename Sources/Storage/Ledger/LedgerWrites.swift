import AuditChain
import DatabaseKit
import Foundation
import GRDB
import SQLiteFiles
import Synchronization

typealias LedgerDeadlines = Deadlines<LedgerFailure>
typealias LedgerCall<Answer: Sendable> = Call<Answer, LedgerFailure>

extension CommitQueue where Write.Failure == LedgerFailure {
    /// The queue of a ledger's writes. Its notes are audit records.
    ///
    /// - Parameter recording: makes the write of a record that no caller waits for.
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

/// Counts the releases that will soon reach the ledger: those that the HSM is processing or has just processed.
///
/// A commit costs the same for one release as for many. Under load, the next releases arrive almost immediately, so the
/// writer waits for them. It waits 40 µs for each, less than a tenth of what each has already waited for the HSM, and 5
/// ms at most. A single release waits for no other.
public final class ReleasesUnderWay: Sendable {
    private static let moment = Duration.microseconds(40)
    private static let longest = Duration.milliseconds(5)

    private let count = Atomic(0)

    public init() {}

    /// Counts a release; ``end()`` must follow, even after a failure.
    public func begin() { count.add(1, ordering: .relaxed) }

    public func end() { count.subtract(1, ordering: .relaxed) }

    /// - Parameter waiting: the number of writes queued for the writer. Releases among them have already arrived.
    @Sendable func worthWaiting(with waiting: Int) -> Duration? {
        let others = count.load(ordering: .relaxed) - waiting
        guard waiting > 0, others > 0 else { return nil }
        return min(Self.moment * others, Self.longest)
    }
}

/// The end of the chain after this process's last write: one head, or two heads if a commit's outcome is unknown.
///
/// There is no other writer, so the next transaction must find the chain ending there. If it does not, another program
/// has changed the ledger or replaced it with an older copy. Claims may then be gone along with the records.
final class LastWrittenHead: Sendable {
    /// Empty until the first commit.
    private let ends = Mutex<[ChainHead]>([])

    func set(_ ends: [ChainHead]) {
        self.ends.withLock { $0 = ends }
    }

    /// The last end known to be written; nil before the first commit.
    var known: ChainHead? { ends.withLock { $0.first } }

    /// Returns true if the chain may end with this head.
    func permits(_ head: ChainHead) -> Bool { ends.withLock { $0.isEmpty || $0.contains(head) } }

    /// Returns `head` if the chain may end with it, and throws otherwise.
    func checked(_ head: ChainHead) throws(LedgerFailure) -> ChainHead {
        guard permits(head) else {
            throw .unavailable(
                reason: "Its audit record does not end where this process left it: another program changed the ledger, "
                    + "or replaced it with an older copy, so nothing is written. Stop the daemon and restore the right "
                    + "ledger; the next start compares it with the HSM token.")
        }
        return head
    }
}

/// The ledger's part of a batch. It checks that the chain still ends where this process left it.
struct LedgerBatches: SQLiteBatches {
    let records: RecordStatements
    let reads: TransactionReads
    let checkpointing: WALCheckpointing
    let observe: @Sendable (LedgerEvent) -> Void
    private let lastEnd = LastWrittenHead()

    init(
        _ records: RecordStatements, _ reads: TransactionReads, _ checkpointing: WALCheckpointing,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) {
        self.records = records
        self.reads = reads
        self.checkpointing = checkpointing
        self.observe = observe
    }

    func begin(_ db: Database) throws -> ChainHead {
        reads.forget()
        return try lastEnd.checked(records.head(db))
    }

    func committed(_ writes: Int, from begin: ChainHead, to end: ChainHead, after time: Duration) {
        lastEnd.set([end])
        observe(.committed(writes: writes, after: time))
        if end != begin { observe(.recorded(upTo: end.sequence)) }
    }

    func failed(_ writes: Int, _ reach: (begin: ChainHead, end: ChainHead)?, _ failure: LedgerFailure) {
        if let reach { lastEnd.set([reach.begin, reach.end]) }
        observe(.failed(writes: writes, reason: failure.description))
    }

    /// A write that was committed without an acknowledgement also counts as recorded.
    func readBack(_ db: Database) {
        if let end = try? records.head(db) { observe(.recorded(upTo: end.sequence)) }
    }

    func ended(_ db: Database) { checkpointing.committed(db) }
}

typealias SQLiteLedgerWriter = SQLiteWriter<LedgerBatches>

extension SQLiteWriter where Batches == LedgerBatches {
    /// Appends a record for a caller that waits until the deadline. If the deadline passes during the commit and the
    /// record turns out not to have been written, it counts as dropped.
    func append(_ record: AuditRecord, in records: RecordStatements) async throws(LedgerFailure) -> Int {
        try await write(
            { db, head in try db.append(record, to: &head) },
            readBack: { line, db in try records.holds(line, db) ? line : nil },
            lost: writes.loss()
        ).sequence
    }
}

extension SQLiteWrite<LedgerFailure, ChainHead> {
    /// Makes the write of a record that no caller waits for.
    init(
        recording record: AuditRecord, in records: RecordStatements, fail: @escaping @Sendable (LedgerFailure) -> Void
    ) {
        self.init(
            unawaited: { db, head in try db.append(record, to: &head) },
            readBack: { line, db in try records.holds(line, db) }, fail: fail)
    }
}
