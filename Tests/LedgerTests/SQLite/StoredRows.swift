import Foundation
import GRDB

@testable import Ledger

// What the tests of the protocol's promises need done behind the protocol: by an earlier version, or by another program. A
// second engine brings its own.
extension LedgerFixture {
    /// As a former program left it: claims pruned by a clock that was a year ahead.
    func setForgottenBefore(_ time: Date) async throws {
        let value = String(Int64(time.timeIntervalSince1970 * 1000))
        try await ledger.connections.write { db in
            try db.execute(sql: "INSERT INTO ledger_meta VALUES ('forgotten_before', ?)", arguments: [value])
        }
    }

    /// An approval that is asked for, its columns in the order in which version 3 of the schema made them.
    func insertEarlierApproval() throws {
        let database = try DatabaseQueue(path: settings.path)
        try database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO approval VALUES (x'0a1b2c3d4e5f6071', 'key_adopt', zeroblob(32), NULL, NULL, 2077,
                        'staff', 1003, 100, '7,8', 'r', 1800000000000, 1800003600000, 'pending', NULL, NULL, 'node-1')
                    """)
        }
        try database.close()
    }

    /// While another program holds the lock on the store.
    func whileLocked(_ body: () async throws -> Void) async throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: settings.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        try await body()
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
    }
}
