public import AuditChain
import Encodings
import Foundation
import GRDB
import SQLiteFiles

/// The statements that read audit records.
struct SQLiteAuditRecords {
    let node: AuditNode

    func page(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int, _ db: Database
    ) throws -> AuditPage {
        let limit = min(max(limit, 1), 1000)
        var conditions = SQLiteAuditConditions(filter, node: node)
        if let base = try SQLiteArchives(node: node).last(db)?.last { conditions.add("sequence >= ?", base) }
        if let cursor {
            conditions.add(order == .oldestFirst ? "sequence > ?" : "sequence < ?", cursor)
        } else if filter.since != nil || filter.until != nil {
            // Where the index of times begins and ends to match, so that the rows around need not be looked at.
            guard let extent = try extent(since: filter.since, until: filter.until, db) else {
                return AuditPage(records: [], next: nil)
            }
            conditions.add("sequence >= ?", extent.lowerBound)
            conditions.add("sequence <= ?", extent.upperBound)
        }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, hash, line FROM audit_record INDEXED BY \(conditions.index)
                    WHERE \(conditions.sql) ORDER BY sequence \(order == .oldestFirst ? "ASC" : "DESC") LIMIT ?
                    """),
            arguments: StatementArguments(conditions.values + [limit + 1]))
        let records = try rows.prefix(limit).map { row in
            StoredRecord(
                sequence: try row.value("sequence"), hash: try row.digest("hash"),
                line: Array(try row.value("line") as Data))
        }
        return AuditPage(records: records, next: rows.count > limit ? records.last?.sequence : nil)
    }

    func extent(since: AuditTime?, until: AuditTime?, _ db: Database) throws -> ClosedRange<Int>? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(sequence) AS first, max(sequence) AS last FROM audit_record
                    WHERE node = ? AND time >= ? AND time < ?
                    """),
            arguments: [
                node.name, since?.milliseconds ?? Int64.min, until?.milliseconds ?? Int64.max,
            ])
        guard let row, let first: Int = try row.value("first"), let last: Int = try row.value("last") else {
            return nil
        }
        return first...last
    }

    func firstRelease(to uid: UInt32, in sequences: ClosedRange<Int>, _ db: Database) throws -> AuditTime? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT time FROM audit_record INDEXED BY audit_record_by_sequence
                    WHERE node = ? AND sequence BETWEEN ? AND ?
                        AND caller_uid = ? AND event = 'decrypt' AND outcome = 'ok'
                    ORDER BY sequence LIMIT 1
                    """),
            arguments: [node.name, sequences.lowerBound, sequences.upperBound, Int64(uid)])
        return try row.map { AuditTime(milliseconds: try $0.value("time")) }
    }

    func lines(_ sequences: ClosedRange<Int>, limit: Int, _ db: Database) throws -> [StoredLine] {
        let records = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, line FROM audit_record
                    WHERE node = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?
                    """),
            arguments: [node.name, sequences.lowerBound, sequences.upperBound, min(max(limit, 1), 1000)]
        ).map { row in
            StoredLine.record(sequence: try row.value("sequence"), Array(try row.value("line") as Data))
        }
        guard let first = records.first?.sequence, let last = records.last?.sequence else { return [] }
        let checkpoints = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, line FROM checkpoint
                    WHERE node = ? AND sequence BETWEEN ? AND ? ORDER BY sequence
                    """),
            arguments: [node.name, min(first, sequences.lowerBound), last]
        ).map { row in
            StoredLine.checkpoint(sequence: try row.value("sequence"), Array(try row.value("line") as Data))
        }
        return records.with(checkpoints)
    }
}

/// A filter as SQL, and the index that finds its records. Callers, merchants and keys have none: every release would pay
/// for it, and a look through a million records takes about a second.
struct SQLiteAuditConditions {
    private(set) var sql: String
    private(set) var values: [any DatabaseValueConvertible]
    private(set) var index = "audit_record_by_sequence"

    init(_ filter: AuditFilter, node: AuditNode) {
        sql = "node = ?"
        values = [node.name]
        if let since = filter.since { add("time >= ?", since.milliseconds) }
        if let until = filter.until { add("time < ?", until.milliseconds) }
        if let outcome = filter.outcome {
            add("outcome = ?", outcome.text)
            if outcome != .ok {
                // Word for word as in the index, which holds no more than these.
                sql += " AND outcome <> 'ok'"
                index = "audit_record_by_outcome"
            }
        }
        if let caller = filter.caller { add(caller: caller.text) }
        if let merchant = filter.merchant { add("merchant = ?", merchant.text) }
        if let key = filter.key { add(key: key) }
        if let transaction = filter.transaction {
            add("transaction_id = ?", transaction.bytes.blob, index: "audit_record_by_transaction")
        }
    }

    /// Later ones are more selective.
    mutating func add(_ condition: String, _ value: any DatabaseValueConvertible, index: String? = nil) {
        sql += " AND \(condition)"
        values.append(value)
        if let index { self.index = index }
    }

    /// A caller's name, or its uid.
    private mutating func add(caller: String) {
        guard let uid = UInt32(caller), String(uid) == caller else {
            add("caller = ?", caller)
            return
        }
        sql += " AND (caller = ? OR caller_uid = ?)"
        values += [caller, Int64(uid)]
    }

    /// A publicKeyHash or its beginning.
    private mutating func add(key: KeyReference) {
        sql += " AND public_key_hash >= ? AND public_key_hash <= ?"
        values += [Self.hash(key.hex, padding: "0"), Self.hash(key.hex, padding: "f")]
    }

    private static func hash(_ prefix: String, padding: String) -> Data {
        let digits = prefix + String(repeating: padding, count: max(0, 64 - prefix.utf8.count))
        return AuditDigest(hex: digits)?.bytes.blob ?? Data()
    }
}

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

    public func firstRelease(
        to uid: UInt32, in sequences: ClosedRange<Int>
    ) async throws(LedgerFailure) -> AuditTime? {
        try await search { [audit] db in try audit.firstRelease(to: uid, in: sequences, db) }
    }

    public func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {
        try await writer.write(
            { [chain] db, head in try SQLiteTransaction.run(chain, &head, db) { try $0.insert(checkpoint) } },
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
