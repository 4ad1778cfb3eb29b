public import AuditChain
import GRDB

extension SQLiteLedger {
    public func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        try await writer.append(record)
    }

    public func note(_ record: AuditRecord) {
        writer.note(record)
    }

    public func head() async throws(LedgerFailure) -> ChainHead {
        try await read { [chain] db in try chain.head(db) }
    }

    public func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await search { [audit] db in
            try audit.page(filter, order: order, after: cursor, limit: limit, db)
        }
    }

    public func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await search { [audit] db in try audit.extent(since: since, until: until, db) }
    }

    public func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        try await search { [audit] db in try audit.lines(sequences, limit: limit, db) }
    }

    public func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {
        try await writer.write(
            { [checkpoints] db, _ in try checkpoints.insert(checkpoint, db) },
            readBack: { [checkpoints] _, db in
                try checkpoints.exists(checkpoint.checkpoint.sequence, db) ? () : nil
            })
    }

    public func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [checkpoints] db in try checkpoints.latest(below: limit, db) }
    }

    public func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [checkpoints] db in try checkpoints.first(from: sequence, db) }
    }

    public func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await search { [checkpoints] db in try checkpoints.after(sequence, limit: limit, db) }
    }

    private var audit: SQLiteAuditRecords { SQLiteAuditRecords(node: chain.node) }
    private var checkpoints: SQLiteCheckpoints { SQLiteCheckpoints(chain: chain) }
}
