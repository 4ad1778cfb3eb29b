import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

@Suite("Older ledgers")
struct MigrationTests {
    /// A key and its claim in a ledger of version 1.
    private static let content1 = """
        INSERT INTO ledger_meta (name, value) VALUES ('schema_version', '1'), ('node', 'node-1'), ('probed', '0');
        INSERT INTO merchant_key VALUES (x'\(keyHex)', 'merchant.com.example', 'EC', 'active', NULL, 'imported',
            1800000000000, 'node-1');
        INSERT INTO claim VALUES (x'\(transactionHex)', x'\(keyHex)', 'checkout', NULL,
            zeroblob(32), zeroblob(16), 1800000000000, 0, NULL, NULL, 'node-1');
        """

    private static let keyHex = String(repeating: "00", count: 31) + "01"
    private static let transactionHex = "000001" + String(repeating: "00", count: 29)
    private let key = PublicKeyHash(bytes: [UInt8](repeating: 0, count: 31) + [1])

    /// Makes a version-1 ledger in WAL mode whose last rows are still in the write-ahead log.
    private func old(in directory: FreshDirectory) throws -> (SQLiteLedger.Settings, DatabaseQueue) {
        let path = try directory.write("", to: "ledger.sqlite")
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { try $0.execute(sql: OlderLedgers.sql("sqlite-1") + Self.content1) }
        return (SQLiteLedger.Settings(path: path, node: "node-1"), queue)
    }

    private func version(_ path: String) throws -> (String?, Int?) {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { db in
            (
                try String.fetchOne(db, sql: "SELECT value FROM ledger_meta WHERE name = 'schema_version'"),
                try Int.fetchOne(db, sql: "SELECT count(*) FROM claim")
            )
        }
    }

    @Test("copies, migrates and uses a ledger of version 1, keeps its keys and claims, and begins its chain")
    func migrates() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        let ledger = try await SQLiteLedger.open(settings)
        #expect(ledger.schemaVersion == SQLiteTables.version)
        #expect(try await ledger.keyRecords().map(\.publicKeyHash) == [key])
        // Before identity keys existed, all keys were for payments.
        #expect(try await ledger.keyRecords().map(\.use) == [.processing])
        #expect(try await ledger.head().sequence == 0)
        let known = try #require(key)
        let release = { (number: UInt8) throws -> Release in
            let bytes = [0, 0, number] + [UInt8](repeating: 0, count: 29)
            guard let transaction = TransactionIdentifier(bytes: bytes) else { throw LedgerFixture.Broken() }
            return Release(
                transactionId: transaction, publicKeyHash: known, caller: "checkout", referenceDigest: nil,
                contentDigest: [UInt8](repeating: 0, count: 32), at: LedgerFixture.noon)
        }
        #expect(try await ledger.release(release(1)) == .replayed)
        let recorded = try await ledger.release(release(2), recording: LedgerFixture.record(of: release(2)))
        #expect(recorded == RecordedVerdict(.released, sequence: 1))
        await ledger.close()
        try queue.close()

        #expect(try version(settings.path) == (String(SQLiteTables.version), 2))
        let copy = settings.path + ".schema-1"
        let attributes = try FileManager.default.attributesOfItem(atPath: copy)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        #expect(try version(copy) == ("restored-1", 1))

        // A second start neither migrates nor copies the ledger.
        let again = try await SQLiteLedger.open(settings)
        #expect(try await again.head().sequence == 1)
        await again.close()
        #expect(!FileManager.default.fileExists(atPath: copy + "-2"))
    }

    @Test("recognises the copy of an upgrade as restored when it is put back")
    func copyPutBack() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        try await SQLiteLedger.open(settings).close()
        try queue.close()
        try FileManager.default.moveItem(atPath: settings.path + ".schema-1", toPath: directory.path("older"))
        let restored = try await SQLiteLedger.open(
            SQLiteLedger.Settings(path: directory.path("older"), node: "node-1"))
        #expect(
            try await restored.releaseStatus().holds.map(\.finding) == [
                LedgerHold.Finding(kind: .restored, ledgerSequence: 0, remembered: nil)
            ])
        await restored.close()
    }

    @Test("keeps an existing copy, and numbers the new one")
    func earlierCopy() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        try queue.close()
        let earlier = try directory.write("earlier", to: "ledger.sqlite.schema-1")
        let ledger = try await SQLiteLedger.open(settings)
        await ledger.close()
        #expect(try String(contentsOfFile: earlier, encoding: .utf8) == "earlier")
        #expect(try version(earlier + "-2") == ("restored-1", 1))
    }

    @Test("removes the copy that a killed upgrade did not finish")
    func unfinishedCopy() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        try queue.close()
        let remains = try ["", "-wal", "-shm"].map {
            try directory.write("unfinished", to: "ledger.sqlite.schema-1.partial\($0)")
        }
        try await SQLiteLedger.open(settings).close()
        for path in remains { #expect(!FileManager.default.fileExists(atPath: path), "\(path)") }
        #expect(try version(settings.path + ".schema-1") == ("restored-1", 1))
    }

    @Test("drops the indexes that only the first programs of version 2 created")
    func withdrawnIndexes() async throws {
        let directory = try FreshDirectory()
        let path = try directory.write("", to: "ledger.sqlite")
        let queue = try DatabaseQueue(path: path)
        try await queue.write { db in
            try db.execute(sql: OlderLedgers.sql("sqlite-2"))
            try db.execute(
                sql: "INSERT INTO ledger_meta VALUES ('schema_version', '2'), ('node', 'node-1'), ('probed', '0')")
        }
        #expect(try await queue.read { try $0.indexes(on: "audit_record").count } == 7)
        try await SQLiteLedger.open(SQLiteLedger.Settings(path: path, node: "node-1")).close()
        #expect(try await queue.read(SQLiteTables.match))
        try queue.close()
    }

    @Test(
        "neither changes nor opens a ledger of which no copy can be made",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func noRoomForTheCopy() async throws {
        let disk = try await SmallDisk(kibibytes: 512)
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        try queue.close()
        let path = disk.path + "/ledger.sqlite"
        try FileManager.default.copyItem(atPath: settings.path, toPath: path)
        // The remaining 40 KiB suffice for the journal and the lock, but not for a copy of the ledger.
        try disk.fill(leaving: 40_960)
        var moved = settings
        moved.path = path
        let error = await #expect(throws: LedgerOpeningError.self) { _ = try await SQLiteLedger.open(moved) }
        guard case .notNow(_, let reason)? = error, reason.contains("copying it before the upgrade failed") else {
            Issue.record("\(String(describing: error))")
            return
        }
        try disk.free()
        #expect(try version(path).0 == "1")
        let ledger = try await SQLiteLedger.open(moved)
        #expect(ledger.schemaVersion == SQLiteTables.version)
        await ledger.close()
        try await disk.unmount()
    }

    @Test("undoes an interrupted migration, and migrates at the next start")
    func cutOff() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        // This index prevents the creation of the last new table.
        try await queue.write { try $0.execute(sql: "CREATE INDEX audit_key ON claim (node)") }
        await #expect(throws: LedgerOpeningError.self) { _ = try await SQLiteLedger.open(settings) }
        let tables = try await queue.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_master") }
        #expect(!tables.contains("audit_record"))
        try await queue.write { try $0.execute(sql: "DROP INDEX audit_key") }
        try queue.close()
        #expect(try version(settings.path) == ("1", 1))
        let ledger = try await SQLiteLedger.open(settings)
        #expect(ledger.schemaVersion == SQLiteTables.version)
        #expect(try await ledger.auditKeys().isEmpty)
        await ledger.close()
    }

    @Test("leaves an incomplete ledger of version 1 as it is")
    func damaged() async throws {
        let directory = try FreshDirectory()
        let (settings, queue) = try old(in: directory)
        try await queue.write {
            try $0.execute(sql: "UPDATE ledger_meta SET value = 'one' WHERE name = 'schema_version'")
        }
        try queue.close()
        await #expect(throws: LedgerOpeningError.notALedger(path: settings.path)) {
            _ = try await SQLiteLedger.open(settings)
        }
        #expect(!FileManager.default.fileExists(atPath: settings.path + ".schema-1"))
    }
}
