import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger
@testable import PostgreSQLLedger
@testable import SQLiteLedger

/// Backups and moves of a file during the removal of archived records. Of 30 records, 1 to 20 are archived, and five of
/// these are already removed.
@Suite("A file whose record begins after an archive")
struct ArchivedFileTests {
    private struct Archived {
        let archive: ArchiveFixture
        let export: [UInt8]

        init() async throws {
            archive = try await ArchiveFixture(engine: .sqlite)
            try await archive.ledger.store(LedgerFixture.record(LedgerFixture.hash(2), state: .compromised))
            try await archive.archived(1...20)
            #expect(try await archive.ledger.removeArchivedRecords(limit: 5) == 5)
            export = try await MoveFixture.export(of: archive.ledger)
        }

        var path: String { archive.fixture.settings.path }
    }

    private func change(_ path: String, _ statement: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: statement) }
        try queue.close()
    }

    private func count(_ path: String, _ query: String) throws -> Int? {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { try Int.fetchOne($0, sql: query) }
    }

    // MARK: Restoring

    private func restore(_ copy: String, to path: String) throws -> LedgerFileRestore.Report {
        try LedgerFileRestore(
            copy: try FileHandle(forReadingFrom: URL(filePath: copy)), named: "copy.sqlite", to: path
        ).carryOut()
    }

    @Test("restores its copy without the archived records that were still in it, and verifies")
    func restored() async throws {
        let archived = try await Archived()
        let copy = try await archived.archive.fixture.sqlite.backup(to: archived.archive.fixture.directory.path("copy"))
        // The copy still contains the archived record 12. The restore must remove it without verifying it.
        try change(copy.path, "UPDATE audit_record SET line = x'00' WHERE sequence = 12")
        let directory = try FreshDirectory()
        let path = directory.path("ledger.sqlite")
        #expect(try restore(copy.path, to: path).lastRecord == 32)
        #expect(try count(path, "SELECT min(sequence) FROM audit_record") == 20)
        #expect(try count(path, "SELECT min(sequence) FROM checkpoint") == 20)
        var settings = archived.archive.fixture.settings
        settings.path = path
        let ledger = try await SQLiteLedger.open(settings)
        #expect(try await MoveFixture.export(of: ledger) == archived.export)
        #expect(try await archived.archive.signer.verdict(of: ledger, beginning: .afterArchive).intactRecords == 12)
        await ledger.close()
    }

    @Test(
        "refuses a copy whose archives, beginning or keys differ from its record",
        arguments: [
            ("UPDATE archive SET digest = zeroblob(32)", "Its list of archives does not match"),
            ("UPDATE archive SET last = 10, hash = (SELECT hash FROM audit_record WHERE sequence = 10)", "missing"),
            ("DELETE FROM archive", "no signed checkpoint of record 5"),
            (
                "UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), 'verify', 'decryp') AS BLOB) WHERE sequence = 20",
                "columns of record 20"
            ),
            (
                "UPDATE audit_record SET hash = zeroblob(32) WHERE sequence = 20",
                "Record 20 is not the record that the last archive ends with"
            ),
            ("DELETE FROM checkpoint WHERE sequence = 20", "no signed checkpoint of record 20"),
            ("UPDATE merchant_key SET state = 'active'", "may do more than its records allow"),
        ])
    func changed(statement: String, fault: String) async throws {
        let archived = try await Archived()
        let copy = try await archived.archive.fixture.sqlite.backup(to: archived.archive.fixture.directory.path("copy"))
        try change(copy.path, statement)
        let directory = try FreshDirectory()
        let error = #expect(throws: LedgerFileRestoreError.self) {
            try restore(copy.path, to: directory.path("ledger.sqlite"))
        }
        guard case .broken(_, let found)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(found.contains(fault), "\(found)")
    }

    @Test("restores a copy in which an import made a key active that waited when records were archived")
    func activatedSinceArchive() async throws {
        let archive = try await ArchiveFixture(engine: .sqlite)
        let key = LedgerFixture.hash(3)
        try await archive.ledger.store(LedgerFixture.record(key, state: .preActivation))
        try await archive.archived(1...20)
        let directory = try FreshDirectory()
        let waiting = try await archive.fixture.sqlite.backup(to: directory.path("waiting"))
        try change(waiting.path, "UPDATE merchant_key SET state = 'active'")
        #expect(
            throws: LedgerFileRestoreError.broken(
                copy: "copy.sqlite",
                fault: "Its key \(key.base64) may do more than its records allow: the copy was changed.")
        ) { try restore(waiting.path, to: directory.path("changed.sqlite")) }

        try await archive.ledger.apply(
            AdministrativeChange(
                at: Date(), key: LedgerFixture.record(key, state: .active),
                records: [
                    AuditRecord(
                        time: AuditTime(Date()), event: .certificateImport(certificate: nil),
                        publicKeyHash: AuditDigest(bytes: key.bytes))
                ]))
        try await archive.signer.seal(archive.ledger)
        let copy = try await archive.fixture.sqlite.backup(to: directory.path("copy"))
        #expect(try restore(copy.path, to: directory.path("ledger.sqlite")).lastRecord == 33)
    }

    // MARK: Moving

    @Test("moves into a database with its archive, and continues there")
    func moved() async throws {
        let archived = try await Archived()
        await archived.archive.ledger.close()
        let database = try await LedgerDatabases.shared.make()
        let move = LedgerMove(
            path: archived.path, url: try database.url(as: LedgerDatabases.owner), passwordFile: nil, version: "1.2.3")
        #expect(try await move.carryOut().status == .moved)
        let ledger = try await PostgreSQLLedger.open(
            PostgreSQLLedger.Settings(url: try database.url(), node: "node-1", timeout: .seconds(60)))
        #expect(try await ledger.lastArchive()?.last == 20)
        #expect(try await MoveFixture.export(of: ledger) == archived.export)
        // The move does not copy archived records that were still to be removed.
        #expect(try await ledger.lines(1...20, limit: 100).map(\.sequence) == [20, 20])
        #expect(try await archived.archive.signer.verdict(of: ledger, beginning: .afterArchive).intactRecords == 12)
        await ledger.close()
    }

    @Test("refuses to move a file that contradicts its record about the archives")
    func movedChanged() async throws {
        let archived = try await Archived()
        await archived.archive.ledger.close()
        try change(archived.path, "UPDATE archive SET size = size + 1")
        let database = try await LedgerDatabases.shared.make()
        let move = LedgerMove(
            path: archived.path, url: try database.url(as: LedgerDatabases.owner), passwordFile: nil, version: "1.2.3")
        let error = await #expect(throws: LedgerMoveError.self) { try await move.carryOut() }
        guard case .brokenChain(_, let fault)? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(fault.contains("Its list of archives does not match"))
        #expect(try await database.sql("SELECT count(*) FROM audit_record") == "0")
    }
}
