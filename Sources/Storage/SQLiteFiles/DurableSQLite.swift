package import DatabaseKit
package import Dispatch
package import Foundation
package import GRDB
import GRDBSQLite

/// Connections to a database whose commits have reached the disk when they return.
package enum DurableSQLite {
    /// The priority of the threads. With GRDB's higher default, libdispatch tries to raise the threads' priority. An
    /// ordinary user may not do that, and each attempt writes a message to standard error.
    package static let threadQuality = DispatchQoS.default

    /// Opens the one connection that writes, with the settings on which a commit's durability depends. Blocks.
    ///
    /// - Parameter checkpointPages: the number of pages in the write-ahead log at which a commit copies it into the
    ///   file.
    package static func writing(
        _ path: String, label: String, checkpointPages: Int, busyTimeout: TimeInterval
    ) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.foreignKeysEnabled = true
        // Otherwise GRDB ends the process if a rollback fails. ``GRDB/Database/durably(_:)`` handles that case.
        configuration.allowsUnsafeTransactions = true
        // GRDB's own mode for WAL sets synchronous to NORMAL. A loss of power then undoes the last commits.
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpointPages)")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Opens a connection that only reads. Blocks.
    package static func reading(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Opens a connection that only reads and has exclusive access, so that SQLite creates no shared-memory file.
    /// Blocks.
    package static func readingAlone(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.prepareDatabase { db in
            // This must precede the first access. A connection that is opened read-only cannot take the lock.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.execute(sql: "PRAGMA query_only = ON")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// The settings of all connections.
    private static func configuration(_ label: String, _ busyTimeout: TimeInterval) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.qos = threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // Savepoints then need no directory for temporary files, which may be full or read-only.
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return configuration
    }

    /// Checks that the requested settings are in force.
    package static func requireDurability(_ db: Database, path: String) throws {
        let journal = try String.fetchOne(db, sql: "PRAGMA journal_mode")
        guard journal == "wal" else {
            throw DatabaseFileError.notDurable(
                path: path, why: "SQLite uses the journal mode \(journal ?? "unknown") there, not wal")
        }
        let synchronous = try Int.fetchOne(db, sql: "PRAGMA synchronous")
        guard synchronous == 2 else {
            throw DatabaseFileError.notDurable(path: path, why: "SQLite's synchronous setting is not FULL")
        }
    }
}

/// A transaction and its rollback failed, for example because a disk disappeared.
package struct TransactionLeftOpen: Error, Sendable {}

extension Database {
    /// Runs `body` between BEGIN IMMEDIATE and COMMIT. The lock comes first, so what `body` reads stays true until the
    /// commit.
    package func durably<T>(_ body: () throws -> T) throws -> T {
        try leaveTransaction()
        var result: Result<T, any Error>?
        try inTransaction(.immediate) {
            result = .success(try body())
            return .commit
        }
        guard let result else { throw TransactionLeftOpen() }
        return try result.get()
    }

    /// Rolls back a transaction that is still open, because its own rollback failed. Until a rollback succeeds, reads
    /// see uncommitted changes, and no other transaction can begin.
    package func leaveTransaction() throws {
        if isInsideTransaction { try rollback() }
        guard !isInsideTransaction else {
            throw TransactionLeftOpen()
        }
    }
}

// Statements use SQLite's own interface, because GRDB's objects for values and rows cost a release more than SQLite's
// own work. GRDB still prepares and keeps the statements, and errors are GRDB's.
extension Database: StoredQueries {
    @discardableResult
    package func run(_ sql: String, _ values: [StoredValue] = []) throws -> [any StoredRow] {
        let statement = unsafe try cachedStatement(sql: sql).sqliteStatement
        // The next use of the statement must find it reset and without values.
        defer {
            unsafe sqlite3_reset(statement)
            unsafe sqlite3_clear_bindings(statement)
        }
        for (position, value) in values.enumerated() {
            try check(unsafe Self.bind(value, at: CInt(position + 1), to: statement))
        }
        var rows: [any StoredRow] = []
        while true {
            switch unsafe sqlite3_step(statement) {
            case SQLITE_ROW: rows.append(unsafe SQLiteRow(statement))
            case SQLITE_DONE: return rows
            case let code:
                try check(code)
                return rows
            }
        }
    }

    package func indexed(by index: String) -> String { "INDEXED BY \(index)" }

    private static func bind(_ value: StoredValue, at position: CInt, to statement: OpaquePointer) -> CInt {
        // This is SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
        let copied = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch value {
        case .integer(nil), .text(nil), .bytes(nil): return unsafe sqlite3_bind_null(statement, position)
        case .integer(let number?): return unsafe sqlite3_bind_int64(statement, position, number)
        case .text(var text?):
            return text.withUTF8 { utf8 in
                unsafe utf8.withMemoryRebound(to: CChar.self) { characters in
                    unsafe sqlite3_bind_text(
                        statement, position, characters.baseAddress, CInt(characters.count), copied)
                }
            }
        case .bytes(let bytes?):
            return unsafe bytes.withUnsafeBytes { bytes in
                unsafe sqlite3_bind_blob(statement, position, bytes.baseAddress, CInt(bytes.count), copied)
            }
        }
    }

    private func check(_ code: CInt) throws {
        guard code != SQLITE_OK else { return }
        throw DatabaseError(resultCode: ResultCode(rawValue: code), message: lastErrorMessage)
    }
}

private struct SQLiteRow: StoredRow {
    /// The columns, each an Int64, a String or a [UInt8]. Nil for NULL, and for a floating-point number, which no
    /// column contains.
    private let cells: [(any Sendable)?]

    fileprivate init(_ statement: OpaquePointer) {
        cells = unsafe (0..<sqlite3_column_count(statement)).map { column -> (any Sendable)? in
            func bytes(_ start: UnsafeRawPointer?) -> UnsafeRawBufferPointer {
                unsafe UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
            }
            switch unsafe sqlite3_column_type(statement, column) {
            case SQLITE_INTEGER: return unsafe sqlite3_column_int64(statement, column)
            case SQLITE_TEXT:
                return unsafe String(decoding: bytes(sqlite3_column_text(statement, column)), as: UTF8.self)
            case SQLITE_BLOB: return unsafe Array(bytes(sqlite3_column_blob(statement, column)))
            default: return nil
            }
        }
    }

    func integerIfAny(_ column: Int) throws -> Int64? { try cell(column) }
    func textIfAny(_ column: Int) throws -> String? { try cell(column) }
    func bytesIfAny(_ column: Int) throws -> [UInt8]? { try cell(column) }
    func integer(_ column: Int) throws -> Int64 { try present(column) }
    func text(_ column: Int) throws -> String { try present(column) }
    func bytes(_ column: Int) throws -> [UInt8] { try present(column) }

    private func present<Value>(_ column: Int) throws -> Value {
        guard let value: Value = try cell(column) else { throw UnreadableColumn(column: column) }
        return value
    }

    private func cell<Value>(_ column: Int) throws -> Value? {
        guard let cell = cells[column] else { return nil }
        guard let value = cell as? Value else { throw UnreadableColumn(column: column) }
        return value
    }
}
