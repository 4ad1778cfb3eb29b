import DatabaseKit
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// The SQL of a ledger that the programs of one version left. `Tests/Storage/OlderLedgers/make` describes its contents.
struct OlderLedgerFile: Sendable, CustomTestStringConvertible {
    let engine: StorageEngine
    let version: Int

    static let all = [
        OlderLedgerFile(engine: .sqlite, version: 3), OlderLedgerFile(engine: .sqlite, version: 4),
        OlderLedgerFile(engine: .sqlite, version: 5), OlderLedgerFile(engine: .sqlite, version: 6),
        OlderLedgerFile(engine: .sqlite, version: 7), OlderLedgerFile(engine: .sqlite, version: 8),
        OlderLedgerFile(engine: .sqlite, version: 9), OlderLedgerFile(engine: .sqlite, version: 10),
        OlderLedgerFile(engine: .sqlite, version: 11),
        OlderLedgerFile(engine: .postgresql, version: 4), OlderLedgerFile(engine: .postgresql, version: 5),
        OlderLedgerFile(engine: .postgresql, version: 6), OlderLedgerFile(engine: .postgresql, version: 7),
        OlderLedgerFile(engine: .postgresql, version: 8), OlderLedgerFile(engine: .postgresql, version: 9),
        OlderLedgerFile(engine: .postgresql, version: 10), OlderLedgerFile(engine: .postgresql, version: 11),
        OlderLedgerFile(engine: .postgresql, version: 12),
    ]

    var testDescription: String { "\(engine.rawValue)-\(version)" }

    /// Writes the contents into a new file or database.
    func placed() async throws -> PlacedLedger {
        switch engine {
        case .sqlite:
            let directory = try FreshDirectory()
            let path = try directory.write("", to: "ledger.sqlite")
            // The SQL has tables in the order of their names, so a row may precede the row that it references. Foreign
            // keys are therefore off.
            var configuration = Configuration()
            configuration.foreignKeysEnabled = false
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            let sql = try OlderLedgers.sqlWithoutTransaction(testDescription)
            try await queue.write { try $0.execute(sql: sql) }
            try queue.close()
            return .file(directory, path)
        case .postgresql:
            let server = try await LedgerDatabases.shared.server
            let name = "o\(UInt64.random(in: .min ... .max))"
            try await server.sql("CREATE DATABASE \(name) OWNER \(LedgerDatabases.owner)")
            try await server.sql(OlderLedgers.sql(testDescription), in: name, as: LedgerDatabases.owner)
            return .database(LedgerDatabase(server: server, name: name))
        }
    }
}

/// A file or database with a ledger, which tests read without the ledger's code.
enum PlacedLedger {
    case file(FreshDirectory, String)
    case database(LedgerDatabase)

    struct StoredClaim: Sendable, Equatable {
        let transaction: TransactionIdentifier
        let key: PublicKeyHash
        let caller: String
        let reference: [UInt8]?
        let content: [UInt8]
        let at: Date
    }

    /// Upgrades the ledger as `ledger create` and the daemon's start do, in this order.
    func upgraded() async throws {
        if case .database(let database) = self {
            _ = try await PostgreSQLSchema.create(
                database.url(as: LedgerDatabases.owner), grantTo: LedgerDatabases.daemon)
        }
    }

    func open() async throws -> any TestedLedger {
        switch self {
        case .file(_, let path):
            try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1", repeatFor: .seconds(3600)))
        case .database(let database):
            try await PostgreSQLLedger.open(
                PostgreSQLLedger.Settings(
                    url: database.url(), node: "node-1", repeatFor: .seconds(3600), timeout: .seconds(60)))
        }
    }

    /// The rows, one per line, with bars between columns.
    private func rows(_ sql: String) async throws -> [[String]] {
        switch self {
        case .file(_, let path):
            let queue = try DatabaseQueue(path: path)
            defer { try? queue.close() }
            return try await queue.read { db in
                try Row.fetchAll(db, sql: sql).map { row in
                    row.map { String.fromDatabaseValue($0.1) ?? Int.fromDatabaseValue($0.1).map(String.init) ?? "" }
                }
            }
        case .database(let database):
            return try await database.sql(sql).split(separator: "\n").map { line in
                line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
            }
        }
    }

    /// The SQL expression that converts a column's bytes to hexadecimal digits.
    private func hex(_ column: String) -> String {
        switch self {
        case .file: "lower(hex(\(column)))"
        case .database: "encode(\(column), 'hex')"
        }
    }

    /// The claims, in the order of their creation.
    func claims() async throws -> [StoredClaim] {
        let columns = ["transaction_id", "public_key_hash", "reference_digest", "content_digest"].map(hex)
        return try await rows(
            "SELECT \(columns.joined(separator: ", ")), caller, claimed_at FROM claim ORDER BY claimed_at"
        ).map { row in
            StoredClaim(
                transaction: try #require(TransactionIdentifier(bytes: bytes(row[0]))),
                key: try #require(PublicKeyHash(bytes: bytes(row[1]))), caller: row[4],
                reference: row[2].isEmpty ? nil : bytes(row[2]), content: bytes(row[3]),
                at: StoredTime.date(try #require(Int64(row[5]))))
        }
    }

    /// The lines of the audit records and of the audit checkpoints, in hexadecimal digits.
    func lines() async throws -> [[String]] {
        try await rows("SELECT \(hex("line")) FROM audit_record ORDER BY sequence")
            + rows("SELECT \(hex("line")) FROM checkpoint ORDER BY sequence")
    }

    /// The definitions of tables, indexes, functions and triggers.
    func schema() async throws -> String {
        switch self {
        case .file:
            return try await rows("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
                .map { $0.joined() }.joined(separator: ";\n")
        case .database(let database):
            return try await database.server.definitions(of: "paytokend", in: database.name)
        }
    }

    private func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
    }
}
