import AuditChain
import Encodings
import Foundation
import GRDB

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
