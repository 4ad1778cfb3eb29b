import Foundation
import GRDB
import PostgreSQLClient
import TestSupport

/// A value of a column, as both engines store it.
enum Cell: Sendable, Hashable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    case boolean(Bool)

    static func text(ifAny text: String?) -> Cell { text.map(Cell.text) ?? .null }
    static func integer(ifAny number: Int64?) -> Cell { number.map(Cell.integer) ?? .null }
    static func bytes(ifAny bytes: [UInt8]?) -> Cell { bytes.map(Cell.bytes) ?? .null }

    var text: String? { if case .text(let text) = self { text } else { nil } }
    var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }

    /// The SQL literal.
    func literal(_ engine: StorageEngine) -> String {
        switch self {
        case .null: "NULL"
        case .integer(let number): "\(number)"
        case .boolean(let value): "\(value)"
        // Of scalars, because a quotation mark may be part of a longer character.
        case .text(let text): "'" + String(text.unicodeScalars.flatMap { $0 == "'" ? "''" : String($0) }) + "'"
        case .bytes(let bytes): engine == .sqlite ? "x'\(hex(bytes))'" : "'\\x\(hex(bytes))'"
        }
    }

    /// The value as a text, for comparison; nil for NULL. A column has values of one type only.
    var shown: String? {
        switch self {
        case .null: nil
        case .integer(let number): "\(number)"
        case .boolean(let value): "\(value)"
        case .text(let text): text
        case .bytes(let bytes): "\\x\(hex(bytes))"
        }
    }
}

func hex(_ bytes: [UInt8]) -> String { bytes.map { String(format: "%02x", $0) }.joined() }

typealias StoredRow = [String: Cell]
/// The rows of each table.
typealias Content = [String: [StoredRow]]

extension StoredRow {
    subscript(column name: String) -> Cell { self[name] ?? .null }
}

/// The rows of each table as texts, for comparison, each in a fixed order. NULL is left out.
typealias ShownContent = [String: [[String: String]]]

extension Content {
    var shown: ShownContent { mapValues { $0.map { $0.compactMapValues(\.shown) }.inFixedOrder } }
}

extension [[String: String]] {
    fileprivate var inFixedOrder: Self {
        map { row in (row, row.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "\n")) }
            .sorted { $0.1 < $1.1 }.map(\.0)
    }
}

/// A file or database with a ledger or a payment store, which is read and written here without the products' code.
enum Place: Sendable {
    case file(path: String)
    case database(PostgreSQLServer, name: String, schema: String)

    var engine: StorageEngine { if case .file = self { .sqlite } else { .postgresql } }

    func execute(_ sql: String) async throws {
        switch self {
        case .file(let path):
            // The rows of a table may precede the rows that they reference.
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try await queue.write { try $0.execute(sql: sql) }
            try queue.close()
        case .database(let server, let name, let schema):
            try await server.sql("SET search_path = \(schema), pg_temp; \(sql)", in: name)
        }
    }

    /// Inserts all rows. If the statement names a column that the schema does not have, it fails.
    func insert(_ content: Content) async throws {
        var statements: [String] = []
        for (table, rows) in content.sorted(by: { $0.key < $1.key }) {
            for row in rows {
                let columns = row.keys.sorted()
                let values = columns.map { row[column: $0].literal(engine) }
                statements.append(
                    "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(values.joined(separator: ", ")));"
                )
            }
        }
        // An argument of a program has at most 128 KiB.
        var batch = ""
        for statement in statements {
            if batch.utf8.count + statement.utf8.count > 100_000 {
                try await execute(batch)
                batch = ""
            }
            batch += statement + "\n"
        }
        if !batch.isEmpty { try await execute(batch) }
    }

    /// The rows of all tables.
    func content() async throws -> ShownContent {
        let content: ShownContent
        switch self {
        case .file(let path):
            content = try await read(path) { db in
                let tables = try String.fetchAll(
                    db, sql: "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
                let rows = try tables.map { try Row.fetchAll(db, sql: "SELECT * FROM \($0)").map(Self.shown) }
                return Dictionary(uniqueKeysWithValues: zip(tables, rows))
            }
        case .database(let server, let name, let schema):
            let tables = try await Self.read(
                server, name,
                "SELECT relname::text FROM pg_class WHERE relnamespace = '\(schema)'::regnamespace AND relkind = 'r'")
            let row = "(SELECT json_object_agg(key, value) FROM jsonb_each_text(to_jsonb(t)))"
            let members = tables.map { "'\($0)', (SELECT coalesce(json_agg(\(row)), '[]') FROM \(schema).\($0) AS t)" }
            let json = try await Self.read(
                server, name, "SELECT json_build_object(\(members.joined(separator: ", ")))::text"
            ).joined()
            let rows = try JSONDecoder().decode([String: [[String: String?]]].self, from: Data(json.utf8))
            content = rows.mapValues { $0.map { $0.compactMapValues { $0 } } }
        }
        return content.mapValues(\.inFixedOrder)
    }

    /// Returns the first column of a query's rows. A session of this process costs less than psql.
    private static func read(_ server: PostgreSQLServer, _ name: String, _ query: String) async throws -> [String] {
        let url = try PostgreSQLURL(server.url(name, user: PostgreSQLServer.superuser))
        return try await withCheckedThrowingContinuation { (waiting: CheckedContinuation<[String], any Error>) in
            Thread.detachNewThread {
                waiting.resume(
                    with: Result {
                        let parameters = PostgreSQLSessionRules.parameters(
                            url, timeout: .seconds(60), application: "tests")
                        let end = ContinuousClock.now + .seconds(60)
                        let connection = try PostgreSQLConnection(parameters, passwordFile: nil, until: end)
                        let statements = [PostgreSQLStatement("SET TimeZone = 'UTC'"), PostgreSQLStatement(query)]
                        return try connection.exchange(statements, until: end)[1].rows.map { try $0.text(0) }
                    })
            }
        }
    }

    private static func shown(_ row: Row) -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: row.compactMap { column, value in
                let cell: Cell =
                    switch value.storage {
                    case .null: .null
                    case .int64(let number): .integer(number)
                    case .double(let number): .text("\(number)")
                    case .string(let text): .text(text)
                    case .blob(let bytes): .bytes(Array(bytes))
                    }
                return cell.shown.map { (column, $0) }
            })
    }

    /// Reads a copy of the file and of its write-ahead log. Reading the file itself would recover it from an
    /// interruption, which the program must do.
    private func read<Value: Sendable>(
        _ path: String, _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        let directory = try FreshDirectory()
        for suffix in ["", "-wal", "-journal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: directory.path("copy" + suffix))
        }
        let queue = try DatabaseQueue(path: directory.path("copy"))
        defer { try? queue.close() }
        return try await queue.read(body)
    }

    /// The definitions of tables, indexes, functions and triggers, a line or more for each.
    func definitions() async throws -> String {
        switch self {
        case .file(let path):
            return try await read(path) { db in
                try String.fetchAll(
                    db,
                    sql: """
                        SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type, name
                        """)
            }.joined(separator: "\n")
        case .database(let server, let name, let schema):
            return try await server.definitions(of: schema, in: name)
        }
    }
}
