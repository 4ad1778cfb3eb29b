import AuditChain
import Foundation
import GRDB

/// A filter as SQL, and the index that finds its records: the one of the member that the fewest records share.
struct SQLiteAuditConditions {
    private(set) var sql: String
    private(set) var values: [any DatabaseValueConvertible]
    private(set) var index = "audit_record_by_sequence"

    init(_ filter: AuditFilter, node: AuditNode, _ db: Database) throws {
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
        if let merchant = filter.merchant { add("merchant = ?", merchant.text, index: "audit_record_by_merchant") }
        if let key = filter.key { try add(key: key, db) }
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

    /// A caller's name, or its uid, which no index covers.
    private mutating func add(caller: String) {
        guard let uid = UInt32(caller), String(uid) == caller else {
            add("caller = ?", caller, index: "audit_record_by_caller")
            return
        }
        sql += " AND (caller = ? OR caller_uid = ?)"
        values += [caller, Int64(uid)]
    }

    /// A beginning of a publicKeyHash nearly always means one key, which the index finds in order.
    private mutating func add(key: AuditFilter.Key, _ db: Database) throws {
        let (low, high) = (Self.hash(key.prefix, padding: "0"), Self.hash(key.prefix, padding: "f"))
        let first = try Self.firstKey(from: low, through: high, db)
        if let first, try Self.firstKey(from: first, through: high, beyond: true, db) == nil {
            add("public_key_hash = ?", first, index: "audit_record_by_key")
            return
        }
        sql += " AND public_key_hash >= ? AND public_key_hash <= ?"
        values += [low, high]
        if first == nil { index = "audit_record_by_key" }
    }

    private static func firstKey(
        from low: Data, through high: Data, beyond: Bool = false, _ db: Database
    ) throws -> Data? {
        try Data.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT public_key_hash FROM audit_record
                    WHERE public_key_hash \(beyond ? ">" : ">=") ? AND public_key_hash <= ?
                    ORDER BY public_key_hash LIMIT 1
                    """),
            arguments: [low, high])
    }

    private static func hash(_ prefix: String, padding: String) -> Data {
        let digits = prefix + String(repeating: padding, count: max(0, 64 - prefix.utf8.count))
        return AuditDigest(hex: digits)?.bytes.blob ?? Data()
    }
}
