package import Foundation

// The statements of both engines are the same, except for locks, nodes and times.

/// Executes statements inside a transaction or a read of one engine.
package protocol StoredQueries {
    /// - Parameter sql: the statement, with the placeholders `$1`, `$2` and so on. They must first appear in this
    ///   order, because SQLite numbers parameters by their first appearance.
    @discardableResult
    func run(_ sql: String, _ values: [StoredValue]) throws -> [any StoredRow]

    /// Returns the clause that names the index to use, for an engine that would otherwise choose a different one; empty
    /// for other engines.
    func indexed(by index: String) -> String
}

extension StoredQueries {
    package func indexed(by index: String) -> String { "" }

    @discardableResult
    package func run(_ statement: StoredStatement) throws -> [any StoredRow] {
        try run(statement.sql, statement.values)
    }

    /// Returns the integer in the first column of a statement's first row; nil without a row or for NULL.
    package func number(_ sql: String, _ values: [StoredValue] = []) throws -> Int64? {
        try run(sql, values).first?.integerIfAny(0)
    }
}

/// A statement and its values.
package struct StoredStatement: Sendable {
    package let sql: String
    package let values: [StoredValue]
    /// The name of the prepared statement in a session with a server; nil if preparing it is not worthwhile.
    package let name: String?

    package init(_ sql: String, _ values: [StoredValue] = [], prepared name: String? = nil) {
        (self.sql, self.values, self.name) = (sql, values, name)
    }
}

/// A value as both engines store it.
package enum StoredValue: Sendable {
    case integer(Int64?)
    case text(String?)
    case bytes([UInt8]?)

    package static func integer(_ number: Int) -> StoredValue { .integer(Int64(number)) }
}

/// Access to a row by column. A value that does not have the requested type was written by another program, and is an
/// error.
package protocol StoredRow {
    func integerIfAny(_ column: Int) throws -> Int64?
    func textIfAny(_ column: Int) throws -> String?
    func bytesIfAny(_ column: Int) throws -> [UInt8]?
    func integer(_ column: Int) throws -> Int64
    func text(_ column: Int) throws -> String
    func bytes(_ column: Int) throws -> [UInt8]
}

/// Times as the engines store them: whole milliseconds since 1970, UTC.
package enum StoredTime {
    /// Returns the time in milliseconds, rounded down.
    package static func milliseconds(_ date: Date) -> Int64 {
        Int64((date.timeIntervalSince1970 * 1000).rounded(.down))
    }

    package static func nearestMilliseconds(_ date: Date) -> Int64 {
        Int64((date.timeIntervalSince1970 * 1000).rounded())
    }

    package static func date(_ milliseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(milliseconds) / 1000)
    }

    package static func milliseconds(_ duration: Duration) -> Int64 {
        duration.components.seconds * 1000 + duration.components.attoseconds / 1_000_000_000_000_000
    }
}
