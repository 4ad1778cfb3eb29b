package import DatabaseKit
package import GRDB
import GRDBSQLite

// Statements through SQLite's own interface. GRDB puts each value and each row into objects, which cost a release more
// than SQLite's own work. GRDB still prepares and keeps the statements, and its errors are thrown as elsewhere.
extension Database: StoredQueries {
    @discardableResult
    package func run(_ sql: String, _ values: [StoredValue] = []) throws -> [any StoredRow] {
        let statement = unsafe try cachedStatement(sql: sql).sqliteStatement
        // On every exit, so that the next use of the statement finds it reset and without values.
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
        // SQLITE_TRANSIENT: SQLite copies the bytes before the call returns.
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
    /// Int64, String or [UInt8]; nil for NULL, and for a floating-point number, which no column holds.
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
