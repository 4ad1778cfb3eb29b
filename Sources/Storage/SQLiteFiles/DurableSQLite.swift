package import DatabaseKit
package import Dispatch
package import Foundation
package import GRDB
import GRDBSQLite

// Unsafe: The connection owns the cached statement. SQLite copies bound values, and columns are copied before the
// next step. lstat(2) writes only the structure that it receives.

/// Opens SQLite connections. A commit returns only after it has reached the disk.
package enum DurableSQLite {
    /// The quality of service of the connections' threads. With GRDB's higher default, libdispatch tries to raise the
    /// threads' priority. An ordinary user may not do that, and each attempt writes a message to standard error.
    package static let threadQuality = DispatchQoS.default

    /// Opens the only connection that writes, with the settings that make commits durable. Blocks until it is open.
    ///
    /// - Parameter checkpointPages: the size of the write-ahead log, in pages, at which a commit copies the log into
    ///   the database file.
    package static func writing(
        _ path: String, label: String, checkpointPages: Int, busyTimeout: TimeInterval
    ) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.foreignKeysEnabled = true
        // Without this setting, GRDB ends the process if a rollback fails. ``GRDB/Database/durably(_:)`` handles a
        // failed rollback.
        configuration.allowsUnsafeTransactions = true
        // GRDB's own WAL mode sets synchronous to NORMAL, with which a loss of power undoes the last commits.
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(checkpointPages)")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Opens a connection that only reads. Blocks until it is open.
    package static func reading(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Opens a connection that only reads and that has exclusive access, so that SQLite creates no shared-memory file.
    /// Blocks until it is open.
    package static func readingAlone(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = configuration(label, busyTimeout)
        configuration.prepareDatabase { db in
            // The locking mode must be set before the first access. The connection is not opened read-only, because it
            // could not take the exclusive lock then.
            try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
            try db.execute(sql: "PRAGMA query_only = ON")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Returns the settings that all connections have in common.
    private static func configuration(_ label: String, _ busyTimeout: TimeInterval) -> Configuration {
        var configuration = Configuration()
        configuration.label = label
        configuration.qos = threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // Without this setting, savepoints need a directory for temporary files, which may be full or read-only.
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return configuration
    }

    /// Checks that SQLite has applied the settings that make commits durable.
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

/// The error for a transaction that could not be rolled back after a failure, for example because a disk disappeared.
package struct TransactionLeftOpen: Error, Sendable {}

extension Database {
    /// Runs `body` between BEGIN IMMEDIATE and COMMIT. BEGIN IMMEDIATE takes the write lock, so data that `body` reads
    /// cannot change before the commit.
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

    /// Rolls back a transaction that is still open because an earlier rollback failed. Until a rollback succeeds, reads
    /// see uncommitted changes, and no other transaction can begin.
    package func leaveTransaction() throws {
        if isInsideTransaction { try rollback() }
        guard !isInsideTransaction else {
            throw TransactionLeftOpen()
        }
    }
}

// Statements use SQLite's C interface. For the release of a payment, GRDB's objects for values and rows take more time
// than SQLite itself. GRDB still prepares and caches the statements, and errors still have GRDB's type.
extension Database: StoredQueries {
    @discardableResult
    package func run(_ sql: String, _ values: [StoredValue] = []) throws -> [any StoredRow] {
        let statement = unsafe try cachedStatement(sql: sql).sqliteStatement
        // The statement is cached, so it must be reset and without values before its next use.
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
        // The value of SQLITE_TRANSIENT, with which SQLite copies the bytes before the call returns.
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
    /// The row's values, each an Int64, a String or a [UInt8]. NULL becomes nil. So does a floating-point number, which
    /// no column of these databases contains.
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

/// The identity of an open database's files at the time of opening.
///
/// If the files are removed or replaced, for example by a restored copy, SQLite continues with the old files. Later
/// commits are then lost when the process ends, and a payment could be released or submitted a second time.
package struct DatabaseFilePlace: Sendable {
    package let path: String
    private let opened: [FileIdentity?]

    /// Reads the identity of the files. The database must be open, because SQLite's write-ahead log exists only then.
    package init(path: String) {
        self.path = path
        opened = Self.files(of: path)
    }

    package func requireUnchanged() throws(DatabaseFileReplaced) {
        guard Self.files(of: path) == opened else { throw DatabaseFileReplaced(path: path) }
    }

    private static func files(of path: String) -> [FileIdentity?] {
        [FileIdentity(path: path), FileIdentity(path: path + "-wal")]
    }
}

/// The device and inode of a file, which identify the file independently of its name.
private struct FileIdentity: Sendable, Equatable {
    private let device: UInt
    private let inode: UInt

    /// Reads the identity of the file at `path`; nil if there is none.
    init?(path: String) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        (device, inode) = (UInt(status.st_dev), UInt(status.st_ino))
    }
}
