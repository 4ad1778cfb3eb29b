import Foundation
import GRDB
import StrictJSON
import TestSupport

/// The record's lines as the ledger's file holds them, read beside the daemon.
enum StoredRecords {
    /// All, in their order.
    static func all(in harness: DaemonHarness) async throws -> [JSONValue] {
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(
            path: harness.directory.path("ledger.sqlite"), configuration: configuration)
        let lines = try await database.read { db in
            try Data.fetchAll(db, sql: "SELECT line FROM audit_record ORDER BY sequence")
        }
        try database.close()
        return try lines.map { try JSONValue(parsing: Array($0)) }
    }

    /// Of one transaction, in their order.
    static func of(transaction: String, in harness: DaemonHarness) async throws -> [JSONValue] {
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(
            path: harness.directory.path("ledger.sqlite"), configuration: configuration)
        let lines = try await database.read { db in
            try Data.fetchAll(
                db, sql: "SELECT line FROM audit_record WHERE lower(hex(transaction_id)) = ? ORDER BY sequence",
                arguments: [transaction])
        }
        try database.close()
        return try lines.map { try JSONValue(parsing: Array($0)) }
    }
}

extension JSONValue {
    /// A member's string, of an object that has it.
    func string(_ name: String) -> String? { objectValue?[name]?.stringValue }
    /// `sequence`, as it is written.
    var sequence: String? {
        guard case .number(let number)? = objectValue?["sequence"] else { return nil }
        return number.text
    }
}

extension CurlAnswer {
    /// `audit.sequence`.
    var recordedAt: String? { member("audit")?.sequence }
}
