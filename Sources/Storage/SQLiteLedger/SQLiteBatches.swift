import AuditChain
import DatabaseKit
import GRDB
import Ledger
import SQLiteFiles

/// The ledger's hooks into the batches of the SQLite writer. Before each batch, they check that the chain still ends
/// with the last record that this process wrote.
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

    /// Reports the chain's end after a failed batch. The commit may have succeeded in spite of its error, and its
    /// records would otherwise never be reported as durable.
    func readBack(_ db: Database) {
        if let end = try? records.head(db) { observe(.recorded(upTo: end.sequence)) }
    }

    func ended(_ db: Database) { checkpointing.committed(db) }
}

typealias SQLiteLedgerWriter = SQLiteWriter<LedgerBatches>

extension SQLiteWriter where Batches == LedgerBatches {
    /// Appends a record for a caller that waits until the deadline. If the deadline passes during the commit and the
    /// record is then not found, the record counts as dropped.
    func append(_ record: AuditRecord, in records: RecordStatements) async throws(LedgerFailure) -> Int {
        try await write(
            { db, head in try db.append(record, to: &head) },
            readBack: { line, db in try records.holds(line, db) ? line : nil },
            lost: writes.loss()
        ).sequence
    }
}

extension SQLiteWrite<LedgerFailure, ChainHead> {
    /// Creates a write that appends a record for which no caller waits. `fail` is called if the record cannot be
    /// written.
    init(
        recording record: AuditRecord, in records: RecordStatements, fail: @escaping @Sendable (LedgerFailure) -> Void
    ) {
        self.init(
            unawaited: { db, head in try db.append(record, to: &head) },
            readBack: { line, db in try records.holds(line, db) }, fail: fail)
    }
}
