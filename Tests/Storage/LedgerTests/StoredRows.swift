import Foundation
import GRDB
import TestSupport

@testable import Ledger

// Changes that tests make without the ledger's code, as an earlier version or another program would. Each storage
// engine needs different SQL.
extension LedgerFixture {
    /// Sets the time before which claims are forgotten, as an earlier version did when its clock was ahead.
    func setForgottenBefore(_ time: Date) async throws {
        let value = String(Int64(time.timeIntervalSince1970 * 1000))
        switch store {
        case .sqlite:
            try await sqlite.connections.write { db in
                try db.execute(sql: "INSERT INTO ledger_meta VALUES ('forgotten_before', ?)", arguments: [value])
            }
        case .postgresql(let database, _):
            try await database.sql("UPDATE ledger_state SET forgotten_before = \(value)")
        }
    }

    /// Inserts an open approval, with its columns in the order in which version 3 of the schema created them.
    func insertEarlierApproval() async throws {
        let values = """
            NULL, NULL, 2077, 'staff', 1003, 100, '7,8', 'r', 1800000000000, 1800003600000, 'pending', NULL, NULL, 'node-1',
            NULL, NULL
            """
        switch store {
        case .sqlite(let settings):
            let database = try DatabaseQueue(path: settings.path)
            try await database.write { db in
                try db.execute(
                    sql: "INSERT INTO approval VALUES (x'0a1b2c3d4e5f6071', 'key_adopt', zeroblob(32), \(values))")
            }
            try database.close()
        case .postgresql(let database, _):
            let zeros = String(repeating: "00", count: 32)
            try await database.sql(
                "INSERT INTO approval VALUES ('\\x0a1b2c3d4e5f6071', 'key_adopt', '\\x\(zeros)', \(values))")
        }
    }

    /// Runs SQL that both engines have.
    func change(_ sql: String) async throws {
        switch store {
        case .sqlite: try await sqlite.connections.write { try $0.execute(sql: sql) }
        case .postgresql(let database, _): try await database.sql(sql)
        }
    }

    /// Runs `body` while another program holds a lock that every write needs.
    func whileLocked(_ body: () async throws -> Void) async throws {
        switch store {
        case .sqlite(let settings):
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            let other = try DatabaseQueue(path: settings.path, configuration: configuration)
            try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            try await body()
            try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        case .postgresql(let database, _):
            let other = try await database.session()
            try await other.run("BEGIN")
            try await other.run("LOCK TABLE node IN SHARE MODE")
            try await body()
            try await other.run("ROLLBACK")
        }
    }

    /// Makes the database refuse every audit record of this caller, as a full disk or a damaged page would.
    func poison(_ caller: String) async throws {
        switch store {
        case .sqlite:
            try await sqlite.connections.write { db in
                try db.execute(
                    sql: """
                        CREATE TRIGGER poison BEFORE INSERT ON audit_record WHEN NEW.caller = '\(caller)'
                        BEGIN SELECT RAISE(ABORT, 'poisoned'); END
                        """)
            }
        case .postgresql(let database, _):
            try await database.sql("ALTER TABLE audit_record ADD CHECK (caller <> '\(caller)')")
        }
    }
}

extension ArchiveFixture {
    /// Runs SQL that changes rows, as an account with write access to the database could.
    private func execute(_ statement: String) async throws {
        switch fixture.store {
        case .sqlite: try await fixture.sqlite.connections.write { try $0.execute(sql: statement) }
        case .postgresql(let database, _): try await database.sql(statement)
        }
    }

    /// Removes all records and audit checkpoints before record `last`, without the ledger's code.
    func removeDirectly(through last: Int) async throws {
        try await execute("DELETE FROM audit_record WHERE sequence < \(last)")
        try await execute("DELETE FROM checkpoint WHERE sequence < \(last)")
    }

    /// Inserts the row of an archive without an audit record of the archiving.
    func insertUnrecordedArchive(through last: Int) async throws {
        try await execute(
            """
            INSERT INTO archive (node, first, last, hash, digest, size, recorded)
            SELECT node, 1, sequence, hash, hash, 1, sequence + 1 FROM audit_record WHERE sequence = \(last)
            """)
    }

    func forgetArchives() async throws { try await execute("DELETE FROM archive") }
}
