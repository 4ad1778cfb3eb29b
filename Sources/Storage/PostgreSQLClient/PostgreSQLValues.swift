package import DatabaseKit

/// A parameter of a statement, in PostgreSQL's binary format.
package enum PostgreSQLValue {
    case integer(Int64?)
    case text(String?)
    case bytes([UInt8]?)
    case integers([Int64?])
    case texts([String?])
    case byteStrings([[UInt8]?])

    var type: PostgreSQLType {
        switch self {
        case .integer: .int8
        case .text: .text
        case .bytes: .bytea
        case .integers: .int8Array
        case .texts: .textArray
        case .byteStrings: .byteaArray
        }
    }

    /// The value in PostgreSQL's binary format; nil for NULL.
    var encoded: [UInt8]? {
        switch self {
        case .integer(let number): number?.bigEndianBytes
        case .text(let text): text.map { Array($0.utf8) }
        case .bytes(let bytes): bytes
        case .integers(let numbers): Self.array(of: .int8, numbers.map { $0?.bigEndianBytes })
        case .texts(let texts): Self.array(of: .text, texts.map { $0.map { Array($0.utf8) } })
        case .byteStrings(let byteStrings): Self.array(of: .bytea, byteStrings)
        }
    }

    /// Encodes a one-dimensional array in the format of array_recv (PostgreSQL's arrayfuncs.c). A header has the number
    /// of dimensions, a flag for NULLs, the elements' type, the number of elements, and the first index. Then come the
    /// elements, each preceded by its length, which is -1 for NULL.
    private static func array(of type: PostgreSQLType, _ elements: [[UInt8]?]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(elements.reduce(20) { $0 + 4 + ($1?.count ?? 0) })
        func append(_ number: Int32) { bytes += number.bigEndianBytes }
        append(elements.isEmpty ? 0 : 1)
        append(elements.contains { $0 == nil } ? 1 : 0)
        append(Int32(type.rawValue))
        guard !elements.isEmpty else { return bytes }
        append(Int32(elements.count))
        append(1)
        for element in elements {
            append(element.map { Int32($0.count) } ?? -1)
            if let element { bytes += element }
        }
        return bytes
    }
}

/// Built-in types of PostgreSQL. The raw value is the type's OID in pg_type.dat, which is the same in every database.
package enum PostgreSQLType: UInt32 {
    case boolean = 16
    case bytea = 17
    case int8 = 20
    case int4 = 23
    case text = 25
    case byteaArray = 1001
    case textArray = 1009
    case int8Array = 1016
}

extension FixedWidthInteger {
    fileprivate var bigEndianBytes: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Self.bitWidth / 8)
        for shift in stride(from: Self.bitWidth - 8, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: self >> shift))
        }
        return bytes
    }
}

/// A statement and its parameters.
package struct PostgreSQLStatement {
    /// The name under which the session keeps the prepared statement; nil for a statement that is sent unprepared.
    package let name: String?
    package let sql: String
    package let values: [PostgreSQLValue]

    package init(_ sql: String, _ values: [PostgreSQLValue] = [], prepared name: String? = nil) {
        self.name = name
        self.sql = sql
        self.values = values
    }
}

extension PostgreSQLStatement {
    /// Makes a statement from SQL and values that all database engines share.
    package init(_ sql: String, shared values: [StoredValue], prepared name: String? = nil) {
        self.init(
            sql,
            values.map { value in
                switch value {
                case .integer(let number): .integer(number)
                case .text(let text): .text(text)
                case .bytes(let bytes): .bytes(bytes)
                }
            }, prepared: name)
    }

    package init(_ statement: StoredStatement) {
        self.init(statement.sql, shared: statement.values, prepared: statement.name)
    }
}

/// The result of a statement.
package struct PostgreSQLResult: Sendable {
    package let rows: [PostgreSQLRow]
    /// The command tag that the server returned, such as `COMMIT` or `INSERT 0 3`.
    package let tag: String
    /// The number of rows that the statement changed.
    package let changes: Int
}

/// A row of a result, whose columns are read by position. Reading a column throws if it has an unexpected type, because
/// another program may have changed the database.
package struct PostgreSQLRow: StoredRow, Sendable {
    package let types: [UInt32]
    package let cells: [[UInt8]?]

    package func integer(_ column: Int) throws(UnreadableColumn) -> Int64 {
        try nonNull(integerIfAny(column), column)
    }

    package func integerIfAny(_ column: Int) throws(UnreadableColumn) -> Int64? {
        guard let cell = try cell(column, [.int8, .int4]) else { return nil }
        let isLong = types[column] == PostgreSQLType.int8.rawValue
        guard cell.count == (isLong ? 8 : 4) else { throw unreadable(column) }
        let value = cell.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return isLong ? Int64(bitPattern: value) : Int64(Int32(truncatingIfNeeded: value))
    }

    package func text(_ column: Int) throws(UnreadableColumn) -> String { try nonNull(textIfAny(column), column) }

    package func textIfAny(_ column: Int) throws(UnreadableColumn) -> String? {
        try cell(column, [.text]).map { String(decoding: $0, as: UTF8.self) }
    }

    package func bytes(_ column: Int) throws(UnreadableColumn) -> [UInt8] { try nonNull(bytesIfAny(column), column) }

    package func bytesIfAny(_ column: Int) throws(UnreadableColumn) -> [UInt8]? { try cell(column, [.bytea]) }

    package func boolean(_ column: Int) throws(UnreadableColumn) -> Bool {
        let cell = try nonNull(cell(column, [.boolean]), column)
        guard cell.count == 1 else { throw unreadable(column) }
        return cell[0] != 0
    }

    private func cell(_ column: Int, _ expected: [PostgreSQLType]) throws(UnreadableColumn) -> [UInt8]? {
        guard cells.indices.contains(column), expected.contains(where: { $0.rawValue == types[column] }) else {
            throw unreadable(column)
        }
        return cells[column]
    }

    private func nonNull<Value>(_ value: Value?, _ column: Int) throws(UnreadableColumn) -> Value {
        guard let value else { throw unreadable(column) }
        return value
    }

    private func unreadable(_ column: Int) -> UnreadableColumn { UnreadableColumn(column: column) }
}
