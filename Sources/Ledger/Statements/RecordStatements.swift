import AuditChain
import Encodings
import Foundation
import PostgreSQLClient

/// What is read of one node's chain.
struct PostgreSQLAuditRecords {
    let node: AuditNode

    func head(_ queries: PostgreSQLReader.Queries) throws -> ChainHead {
        try PostgreSQLTransaction.head(
            try queries.results([PostgreSQLTransaction.head(of: node)])[0], of: node)
    }

    func page(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int, _ queries: PostgreSQLReader.Queries
    ) throws -> AuditPage {
        let limit = min(max(limit, 1), 1000)
        var conditions = PostgreSQLConditions(filter, node: node)
        if let base = try PostgreSQLArchives(node: node).last(queries)?.last {
            conditions.add("sequence >=", .integer(Int64(base)))
        }
        if let cursor {
            conditions.add(order == .oldestFirst ? "sequence >" : "sequence <", .integer(Int64(cursor)))
        } else if filter.since != nil || filter.until != nil {
            // Where the index of times begins and ends to match, so that the rows around need not be looked at.
            guard let extent = try extent(since: filter.since, until: filter.until, queries) else {
                return AuditPage(records: [], next: nil)
            }
            conditions.add("sequence >=", .integer(Int64(extent.lowerBound)))
            conditions.add("sequence <=", .integer(Int64(extent.upperBound)))
        }
        let rows = try queries.rows(
            """
            SELECT sequence, hash, line FROM audit_record WHERE \(conditions.sql)
            ORDER BY sequence \(order == .oldestFirst ? "ASC" : "DESC") LIMIT \(limit + 1)
            """, conditions.values)
        let records = try rows.prefix(limit).map { row in
            StoredRecord(sequence: Int(try row.integer(0)), hash: try row.digest(1), line: try row.bytes(2))
        }
        return AuditPage(records: records, next: rows.count > limit ? records.last?.sequence : nil)
    }

    func extent(
        since: AuditTime?, until: AuditTime?, _ queries: PostgreSQLReader.Queries
    ) throws -> ClosedRange<Int>? {
        let row = try queries.rows(
            "SELECT min(sequence), max(sequence) FROM audit_record WHERE node = $1 AND time >= $2 AND time < $3",
            [
                .text(node.name), .integer(since?.milliseconds ?? Int64.min),
                .integer(until?.milliseconds ?? Int64.max),
            ]
        ).first
        guard let first = try row?.integerIfAny(0), let last = try row?.integerIfAny(1) else { return nil }
        return Int(first)...Int(last)
    }

    func lines(
        _ sequences: ClosedRange<Int>, limit: Int, _ queries: PostgreSQLReader.Queries
    ) throws -> [StoredLine] {
        let records = try queries.rows(
            """
            SELECT sequence, line FROM audit_record
            WHERE node = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence LIMIT \(min(max(limit, 1), 1000))
            """,
            [.text(node.name), .integer(Int64(sequences.lowerBound)), .integer(Int64(sequences.upperBound))]
        ).map { row in StoredLine.record(sequence: Int(try row.integer(0)), try row.bytes(1)) }
        guard let first = records.first?.sequence, let last = records.last?.sequence else { return [] }
        let checkpoints = try queries.rows(
            """
            SELECT sequence, line FROM checkpoint WHERE node = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence
            """,
            [.text(node.name), .integer(Int64(min(first, sequences.lowerBound))), .integer(Int64(last))]
        ).map { row in StoredLine.checkpoint(sequence: Int(try row.integer(0)), try row.bytes(1)) }
        return records.with(checkpoints)
    }

    func firstRelease(
        to uid: UInt32, in sequences: ClosedRange<Int>, _ queries: PostgreSQLReader.Queries
    ) throws -> AuditTime? {
        try queries.rows(
            """
            SELECT time FROM audit_record WHERE node = $1 AND sequence BETWEEN $2 AND $3
                AND caller_uid = $4 AND event = 'decrypt' AND outcome = 'ok' ORDER BY sequence LIMIT 1
            """,
            [
                .text(node.name), .integer(Int64(sequences.lowerBound)), .integer(Int64(sequences.upperBound)),
                .integer(Int64(uid)),
            ]
        ).first.map { AuditTime(milliseconds: try $0.integer(0)) }
    }

    /// Checkpoints that a condition on `sequence` and $2 admits.
    func checkpoints(
        _ condition: String, _ sequence: Int, order: String = "ASC", limit: Int, _ queries: PostgreSQLReader.Queries
    ) throws -> [SignedCheckpoint] {
        try queries.rows(
            "SELECT line FROM checkpoint WHERE node = $1 AND \(condition) ORDER BY sequence \(order) LIMIT \(limit)",
            [.text(node.name), .integer(Int64(sequence))]
        ).map { row in
            guard let checkpoint = SignedCheckpoint(line: try row.bytes(0)) else {
                throw LedgerFailure.unavailable(
                    reason: "A stored checkpoint is not readable: the ledger was changed by another program.")
            }
            return checkpoint
        }
    }

    func auditKeys(_ queries: PostgreSQLReader.Queries) throws -> [StoredAuditKey] {
        try queries.rows(
            "SELECT identifier, public_key FROM audit_key WHERE node = $1 ORDER BY ordinal", [.text(node.name)]
        ).map(Self.auditKey)
    }

    static func auditKey(_ row: PostgreSQLRow) throws -> StoredAuditKey {
        StoredAuditKey(identifier: try row.bytes(0), publicKey: try row.bytesIfAny(1))
    }
}

/// A filter as SQL. Callers, merchants and keys have no index: every release would pay for it.
private struct PostgreSQLConditions {
    private(set) var sql = "node = $1"
    private(set) var values: [PostgreSQLValue]

    init(_ filter: AuditFilter, node: AuditNode) {
        values = [.text(node.name)]
        if let since = filter.since { add("time >=", .integer(since.milliseconds)) }
        if let until = filter.until { add("time <", .integer(until.milliseconds)) }
        if let outcome = filter.outcome {
            add("outcome =", .text(outcome.text))
            // Word for word as in the index, which holds no more than these.
            if outcome != .ok { sql += " AND outcome <> 'ok'" }
        }
        if let caller = filter.caller { add(caller: caller.text) }
        if let merchant = filter.merchant { add("merchant =", .text(merchant.text)) }
        if let key = filter.key {
            add("public_key_hash >=", .bytes(Self.hash(key.hex, padding: "0")))
            add("public_key_hash <=", .bytes(Self.hash(key.hex, padding: "f")))
        }
        if let transaction = filter.transaction { add("transaction_id =", .bytes(transaction.bytes)) }
    }

    mutating func add(_ condition: String, _ value: PostgreSQLValue) {
        values.append(value)
        sql += " AND \(condition) $\(values.count)"
    }

    /// A caller's name, or its uid.
    private mutating func add(caller: String) {
        guard let uid = UInt32(caller), String(uid) == caller else { return add("caller =", .text(caller)) }
        values += [.text(caller), .integer(Int64(uid))]
        sql += " AND (caller = $\(values.count - 1) OR caller_uid = $\(values.count))"
    }

    /// The first or the last publicKeyHash with a beginning.
    private static func hash(_ prefix: String, padding: String) -> [UInt8] {
        let digits = prefix + String(repeating: padding, count: max(0, 64 - prefix.utf8.count))
        return AuditDigest(hex: digits)?.bytes ?? []
    }
}
