import AuditChain
import Foundation
import PaymentToken
import PostgreSQLClient

// Both engines have the same tables, but for what each knows of nodes and time, and execute the same statements on them.

/// Executes statements inside a transaction or a read of one engine.
protocol LedgerQueries {
    /// - Parameter sql: its values are `$1`, `$2` and so on. Their first places are in this order: SQLite counts them so.
    @discardableResult
    func run(_ sql: String, _ values: [StoredValue]) throws -> [any StoredRow]

    /// Names the index that finds the rows, where an engine would take another one; empty elsewhere.
    func indexed(by index: String) -> String
}

extension LedgerQueries {
    func indexed(by index: String) -> String { "" }

    /// A statement that gives one number.
    func number(_ sql: String, _ values: [StoredValue] = []) throws -> Int64? {
        try run(sql, values).first?.integerIfAny(0)
    }
}

/// A value as both engines store it.
enum StoredValue: Sendable {
    case integer(Int64?)
    case text(String?)
    case bytes([UInt8]?)

    /// Milliseconds, ``StoredTime``.
    static func time(_ date: Date?) -> StoredValue { .integer(date.map(StoredTime.milliseconds)) }

    static func integer(_ number: Int) -> StoredValue { .integer(Int64(number)) }
}

/// A row by its columns. What holds another type than asked for was written by another program, and is thrown.
protocol StoredRow {
    func integerIfAny(_ column: Int) throws -> Int64?
    func textIfAny(_ column: Int) throws -> String?
    func bytesIfAny(_ column: Int) throws -> [UInt8]?
    func integer(_ column: Int) throws -> Int64
    func text(_ column: Int) throws -> String
    func bytes(_ column: Int) throws -> [UInt8]
}

extension PostgreSQLRow: StoredRow {}

extension StoredRow {
    /// 32 bytes.
    func digest(_ column: Int) throws -> AuditDigest {
        guard let digest = AuditDigest(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a digest that is not of 32 bytes.")
        }
        return digest
    }

    func publicKeyHash(_ column: Int) throws -> PublicKeyHash {
        guard let hash = PublicKeyHash(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a publicKeyHash that is not of 32 bytes.")
        }
        return hash
    }

    func transactionIdentifier(_ column: Int) throws -> TransactionIdentifier {
        guard let identifier = TransactionIdentifier(bytes: try bytes(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds a transaction identifier that is not of 32 bytes.")
        }
        return identifier
    }

    func date(_ column: Int) throws -> Date { StoredTime.date(try integer(column)) }

    func dateIfAny(_ column: Int) throws -> Date? { try integerIfAny(column).map(StoredTime.date) }

    func number(_ column: Int) throws -> UInt32 {
        guard let number = UInt32(exactly: try integer(column)) else {
            throw LedgerFailure.unavailable(reason: "A row holds an account's number that is none.")
        }
        return number
    }
}
