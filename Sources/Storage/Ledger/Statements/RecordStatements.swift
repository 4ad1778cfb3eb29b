package import AuditChain
package import DatabaseKit
import Encodings
package import Foundation
import Locks

/// The statements that read one node's chain.
package struct RecordStatements {
    package let node: AuditNode

    package init(node: AuditNode) { self.node = node }

    /// The statement that selects the end of the chain.
    package static let head = "SELECT sequence, hash FROM audit_record WHERE node = $1 ORDER BY sequence DESC LIMIT 1"

    package func head(_ queries: any StoredQueries) throws -> ChainHead {
        try head(queries.run(Self.head, [.text(node.name)]).first)
    }

    /// - Parameter row: the row of ``head``; nil or without values if the chain has not begun.
    package func head(_ row: (any StoredRow)?) throws -> ChainHead {
        guard let row, let sequence = try row.integerIfAny(0) else { return ChainHead(node: node) }
        guard let head = ChainHead(node: node, sequence: Int(sequence), hash: try row.digest(1)) else {
            throw LedgerFailure.unavailable(reason: "The last audit record has an invalid sequence.")
        }
        return head
    }

    /// Returns the hash of this node's record with the sequence; nil if there is no such record.
    package func hash(of sequence: Int, _ queries: any StoredQueries) throws -> AuditDigest? {
        try queries.run(
            "SELECT hash FROM audit_record WHERE node = $1 AND sequence = $2", [.text(node.name), .integer(sequence)]
        ).first?.digest(0)
    }

    /// Returns true if exactly this line is stored. Comparing the sequence and the hash suffices, since no other line
    /// has this hash.
    package func holds(_ line: AuditLine, _ queries: any StoredQueries) throws -> Bool {
        try hash(of: line.sequence, queries) == line.hash
    }

    package func page(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int, _ queries: any StoredQueries
    ) throws -> AuditPage {
        let limit = min(max(limit, 1), 1000)
        var conditions = RecordConditions(filter, node: node)
        if let base = try lastArchive(queries)?.last {
            conditions.add("sequence >=", .integer(base))
        }
        if let cursor {
            conditions.add(order == .oldestFirst ? "sequence >" : "sequence <", .integer(cursor))
        } else if filter.since != nil || filter.until != nil {
            // Limit the query to the sequences in which the filter's times occur. Otherwise the query would read all
            // rows.
            guard let extent = try extent(since: filter.since, until: filter.until, queries) else {
                return AuditPage(records: [], next: nil)
            }
            conditions.add("sequence >=", .integer(extent.lowerBound))
            conditions.add("sequence <=", .integer(extent.upperBound))
        }
        let rows = try queries.run(
            """
            SELECT sequence, hash, line FROM audit_record \(queries.indexed(by: conditions.index)) WHERE \(conditions.sql)
            ORDER BY sequence \(order == .oldestFirst ? "ASC" : "DESC") LIMIT $\(conditions.values.count + 1)
            """, conditions.values + [.integer(limit + 1)])
        let records = try rows.prefix(limit).map(Self.record)
        return AuditPage(records: records, next: rows.count > limit ? records.last?.sequence : nil)
    }

    package func extent(
        since: AuditTime?, until: AuditTime?, _ queries: any StoredQueries
    ) throws -> ClosedRange<Int>? {
        let row = try queries.run(
            "SELECT min(sequence), max(sequence) FROM audit_record WHERE node = $1 AND time >= $2 AND time < $3",
            [
                .text(node.name), .integer(since?.milliseconds ?? Int64.min),
                .integer(until?.milliseconds ?? Int64.max),
            ]
        ).first
        guard let first = try row?.integerIfAny(0), let last = try row?.integerIfAny(1) else { return nil }
        return Int(first)...Int(last)
    }

    package func lines(
        _ sequences: ClosedRange<Int>, limit: Int, _ queries: any StoredQueries
    ) throws -> [StoredLine] {
        let records = try queries.run(
            """
            SELECT sequence, line FROM audit_record
            WHERE node = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence LIMIT $4
            """,
            [
                .text(node.name), .integer(sequences.lowerBound), .integer(sequences.upperBound),
                .integer(min(max(limit, 1), 1000)),
            ]
        ).map { row in StoredLine.record(sequence: Int(try row.integer(0)), try row.bytes(1)) }
        guard let first = records.first?.sequence, let last = records.last?.sequence else { return [] }
        let checkpoints = try queries.run(
            "SELECT sequence, line FROM checkpoint WHERE node = $1 AND sequence BETWEEN $2 AND $3 ORDER BY sequence",
            [.text(node.name), .integer(min(first, sequences.lowerBound)), .integer(last)]
        ).map { row in StoredLine.checkpoint(sequence: Int(try row.integer(0)), try row.bytes(1)) }
        return records.with(checkpoints)
    }

    func firstReleases(
        in sequences: ClosedRange<Int>, _ queries: any StoredQueries
    ) throws -> [UInt32: AuditTime] {
        let releases = try queries.run(
            """
            SELECT caller_uid, time FROM audit_record WHERE node = $1 AND sequence IN (
                SELECT min(sequence) FROM audit_record \(queries.indexed(by: "audit_record_by_sequence"))
                WHERE node = $1 AND sequence BETWEEN $2 AND $3 AND event = 'decrypt' AND outcome = 'ok'
                    AND caller_uid IS NOT NULL GROUP BY caller_uid)
            """, [.text(node.name), .integer(sequences.lowerBound), .integer(sequences.upperBound)]
        ).map { row in (UInt32(clamping: try row.integer(0)), AuditTime(milliseconds: try row.integer(1))) }
        return Dictionary(releases) { first, _ in first }
    }

    /// Returns the time of the newest claim or the newest record of a release, whichever is later. Neither source is
    /// complete: claims may have been pruned, and ledgers of version 1 had no records. Repeats do not count, since the
    /// signing-time window does not apply to them.
    package func newestRelease(_ queries: any StoredQueries) throws -> Date? {
        let recorded = try queries.number(
            """
            SELECT time FROM audit_record WHERE node = $1 AND event = 'decrypt' AND outcome = 'ok'
            ORDER BY time DESC LIMIT 1
            """, [.text(node.name)])
        let claimed = try queries.number("SELECT max(claimed_at) FROM claim")
        return [recorded, claimed].compactMap(\.self).max().map(StoredTime.date)
    }

    /// Returns audit checkpoints that match an SQL condition, in which `$2` is a placeholder for a sequence.
    package func checkpoints(
        _ condition: String, _ sequence: Int, order: String = "ASC", limit: Int, _ queries: any StoredQueries
    ) throws -> [SignedCheckpoint] {
        try queries.run(
            "SELECT line FROM checkpoint WHERE node = $1 AND \(condition) ORDER BY sequence \(order) LIMIT $3",
            [.text(node.name), .integer(sequence), .integer(limit)]
        ).map { row in
            guard let checkpoint = SignedCheckpoint(line: try row.bytes(0)) else {
                throw LedgerFailure.unavailable(
                    reason: "A stored checkpoint is unreadable: another program changed the ledger.")
            }
            return checkpoint
        }
    }

    package func auditKeys(_ queries: any StoredQueries) throws -> [StoredAuditKey] {
        try queries.run(
            "SELECT identifier, public_key, hsm_token FROM audit_key WHERE node = $1 ORDER BY ordinal",
            [.text(node.name)]
        ).map(Self.auditKey)
    }

    package func auditKey(_ identifier: [UInt8], _ queries: any StoredQueries) throws -> StoredAuditKey? {
        try queries.run(
            "SELECT identifier, public_key, hsm_token FROM audit_key WHERE node = $1 AND identifier = $2",
            [.text(node.name), .bytes(identifier)]
        ).first.map(Self.auditKey)
    }

    package static func auditKey(_ row: any StoredRow) throws -> StoredAuditKey {
        StoredAuditKey(
            identifier: try row.bytes(0), publicKey: try row.bytesIfAny(1), hsmToken: try row.textIfAny(2))
    }

    package static func record(_ row: any StoredRow) throws -> StoredRecord {
        StoredRecord(sequence: Int(try row.integer(0)), hash: try row.digest(1), line: try row.bytes(2))
    }

    /// Returns the archive after which the chain begins: the last one whose own record is sealed. Nil if there is none.
    package func lastArchive(_ queries: any StoredQueries) throws -> RecordArchive? {
        try newestArchive("EXISTS", queries)
    }

    /// Returns the archive whose own record is not sealed yet; nil if there is none.
    func unsealedArchive(_ queries: any StoredQueries) throws -> RecordArchive? {
        try newestArchive("NOT EXISTS", queries)
    }

    private func newestArchive(_ condition: String, _ queries: any StoredQueries) throws -> RecordArchive? {
        try queries.run(
            """
            SELECT first, last, hash, digest, size FROM archive AS a
            WHERE a.node = $1 AND \(condition)
                (SELECT 1 FROM checkpoint AS c WHERE c.node = a.node AND c.sequence >= a.recorded)
            ORDER BY last DESC LIMIT 1
            """, [.text(node.name)]
        ).first.map(Self.archive)
    }

    package static func archive(_ row: any StoredRow) throws -> RecordArchive {
        guard
            let archive = RecordArchive(
                first: Int(try row.integer(0)), last: Int(try row.integer(1)), hash: try row.digest(2),
                digest: try row.digest(3), size: Int(try row.integer(4)))
        else { throw LedgerFailure.unavailable(reason: "An archive has invalid sequences.") }
        return archive
    }
}

/// The SQL condition of a filter, and the name of the index that finds its records. Callers, merchants and keys have no
/// index, since an index would slow every release. A search for them through a million records takes about a second.
private struct RecordConditions {
    private(set) var sql = "node = $1"
    private(set) var values: [StoredValue]
    private(set) var index = "audit_record_by_sequence"

    package init(_ filter: AuditFilter, node: AuditNode) {
        values = [.text(node.name)]
        if let since = filter.since { add("time >=", .integer(since.milliseconds)) }
        if let until = filter.until { add("time <", .integer(until.milliseconds)) }
        if let outcome = filter.outcome {
            add("outcome =", .text(outcome.text))
            // This text must equal the condition of the partial index `audit_record_by_outcome`; otherwise the database
            // cannot use that index.
            if outcome != .ok {
                sql += " AND outcome <> 'ok'"
                index = "audit_record_by_outcome"
            }
        }
        if let caller = filter.caller { add(caller: caller.text) }
        if let merchant = filter.merchant { add("merchant =", .text(merchant.text)) }
        if let key = filter.key {
            add("public_key_hash >=", .bytes(Self.hash(key.hex, padding: "0")))
            add("public_key_hash <=", .bytes(Self.hash(key.hex, padding: "f")))
        }
        if let transaction = filter.transaction {
            add("transaction_id =", .bytes(transaction.bytes))
            index = "audit_record_by_transaction"
        }
    }

    mutating func add(_ condition: String, _ value: StoredValue) {
        values.append(value)
        sql += " AND \(condition) $\(values.count)"
    }

    /// Adds the condition that the caller's name or uid matches.
    private mutating func add(caller: String) {
        guard let uid = UInt32(caller), String(uid) == caller else { return add("caller =", .text(caller)) }
        values += [.text(caller), .integer(Int64(uid))]
        sql += " AND (caller = $\(values.count - 1) OR caller_uid = $\(values.count))"
    }

    /// Returns the lowest publicKeyHash with this prefix if `padding` is "0", and the highest if it is "f".
    private static func hash(_ prefix: String, padding: String) -> [UInt8] {
        let digits = prefix + String(repeating: padding, count: max(0, 64 - prefix.utf8.count))
        return AuditDigest(hex: digits)?.bytes ?? []
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
