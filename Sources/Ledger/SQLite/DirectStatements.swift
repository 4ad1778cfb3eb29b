import GRDB
import GRDBSQLite

/// A value as SQLite stores it, for ``GRDB/Database/run(_:_:)``.
enum SQLiteValue {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])

    static func text(optional text: String?) -> SQLiteValue { text.map(SQLiteValue.text) ?? .null }
    static func blob(optional bytes: [UInt8]?) -> SQLiteValue { bytes.map(SQLiteValue.blob) ?? .null }
}

// The statements of a release, through SQLite's own interface: GRDB puts each value and each row into objects of its own,
// which cost a release more than what SQLite does with them. GRDB prepares and keeps the statements, and its errors are
// thrown as everywhere else.
extension Database {
    /// A statement that gives no rows.
    func run(_ sql: String, _ values: SQLiteValue...) throws {
        _ = try step(sql, values) { _ in }
    }

    /// A statement's first row; nil when there is none.
    func firstRow<Value>(
        _ sql: String, _ values: SQLiteValue..., read: (borrowing DirectRow) throws -> Value
    ) throws -> Value? {
        try step(sql, values, read)
    }

    private func step<Value>(
        _ sql: String, _ values: [SQLiteValue], _ read: (borrowing DirectRow) throws -> Value
    ) throws -> Value? {
        let statement = unsafe try cachedStatement(sql: sql).sqliteStatement
        // Whatever happens, the next one to use the statement finds it at its beginning and without values.
        defer {
            unsafe sqlite3_reset(statement)
            unsafe sqlite3_clear_bindings(statement)
        }
        for (position, value) in values.enumerated() {
            try check(unsafe Self.bind(value, at: CInt(position + 1), to: statement))
        }
        switch unsafe sqlite3_step(statement) {
        case SQLITE_ROW: return try read(unsafe DirectRow(statement))
        case SQLITE_DONE: return nil
        case let code:
            try check(code)
            return nil
        }
    }

    private static func bind(_ value: SQLiteValue, at position: CInt, to statement: OpaquePointer) -> CInt {
        // SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
        let copied = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch value {
        case .null: return unsafe sqlite3_bind_null(statement, position)
        case .integer(let number): return unsafe sqlite3_bind_int64(statement, position, number)
        case .text(var text):
            return text.withUTF8 { utf8 in
                unsafe utf8.withMemoryRebound(to: CChar.self) { characters in
                    unsafe sqlite3_bind_text(
                        statement, position, characters.baseAddress, CInt(characters.count), copied)
                }
            }
        case .blob(let bytes):
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

/// The row at which a statement stands. A column of another type than asked for reads as nil: a damaged file may hold
/// anything.
@safe struct DirectRow: ~Copyable {
    private let statement: OpaquePointer

    fileprivate init(_ statement: OpaquePointer) {
        unsafe self.statement = statement
    }

    func integer(_ column: CInt) -> Int64? {
        unsafe sqlite3_column_type(statement, column) == SQLITE_INTEGER
            ? unsafe sqlite3_column_int64(statement, column) : nil
    }

    func text(_ column: CInt) -> String? {
        guard unsafe sqlite3_column_type(statement, column) == SQLITE_TEXT,
            let characters = unsafe sqlite3_column_text(statement, column)
        else { return nil }
        return unsafe String(cString: characters)
    }

    func blob(_ column: CInt) -> [UInt8]? {
        guard unsafe sqlite3_column_type(statement, column) == SQLITE_BLOB else { return nil }
        guard let bytes = unsafe sqlite3_column_blob(statement, column) else { return [] }
        return unsafe Array(
            UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, column))))
    }
}
