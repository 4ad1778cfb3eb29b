import Foundation
import GRDB
import SQLiteFiles
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

@Suite("Durability")
struct DurabilityTests {
    @Test("writes on a connection with WAL and synchronous FULL")
    func pragmas() async throws {
        let fixture = try await LedgerFixture()
        let (journal, synchronous) = try await fixture.sqlite.connections.write { db in
            (try String.fetchOne(db, sql: "PRAGMA journal_mode"), try Int.fetchOne(db, sql: "PRAGMA synchronous"))
        }
        #expect(journal == "wal")
        #expect(synchronous == 2)
    }

    @Test("rejects a connection with synchronous NORMAL, GRDB's choice for WAL")
    func normalIsRefused() throws {
        let directory = try FreshDirectory()
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: directory.path("other.sqlite"), configuration: configuration)
        #expect(throws: DatabaseFileError.self) {
            try queue.writeWithoutTransaction { try DurableSQLite.requireDurability($0, path: "other.sqlite") }
        }
    }

    @Test("rejects a connection with another journal than WAL")
    func rollbackJournalIsRefused() throws {
        let directory = try FreshDirectory()
        let queue = try DatabaseQueue(path: directory.path("other.sqlite"))
        #expect(throws: DatabaseFileError.self) {
            try queue.writeWithoutTransaction { try DurableSQLite.requireDurability($0, path: "other.sqlite") }
        }
    }

    /// A crash leaves the file and its write-ahead log, but not the shared-memory file, so the test copies only the
    /// first two.
    @Test("has every acknowledged release in the files at once, as after a crash")
    func filesAfterACrash() async throws {
        let fixture = try await LedgerFixture()
        for number in 1...25 { #expect(try await fixture.ledger.release(fixture.request(number)) == .released) }
        let left = try FreshDirectory()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: fixture.settings.path + suffix, toPath: left.path("ledger.sqlite" + suffix))
        }
        var settings = fixture.settings
        settings.path = left.path("ledger.sqlite")
        let recovered = try await SQLiteLedger.open(settings)
        for number in 1...25 {
            #expect(try await recovered.release(fixture.request(number, reference: nil)) == .replayed)
        }
        await recovered.close()
    }

    @Test("keeps claims and key records over a restart")
    func restart() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.keyRecords() == [LedgerFixture.record(fixture.key)])
        #expect(try await again.release(fixture.request(1)) == .repeated)
        #expect(try await again.release(fixture.request(1, reference: nil)) == .replayed)
        await again.close()
    }

    @Test("finds a release by its attempt after a lost acknowledgement, and keeps it a single release")
    func acknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        fixture.loseAcknowledgement()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        fixture.loseAcknowledgement()
        #expect(try await fixture.releasing(1, reference: nil)(fixture.ledger).verdict == .replayed)
        #expect(fixture.lostAcknowledgements == 3)
    }

    @Test("reports a failed commit as unavailable, claims nothing, and continues")
    func commitFailed() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(fixture.request(1)) }
        try await fixture.repairCommits()
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .released)
    }

    @Test("neither reads a transaction left open by a failed rollback as committed, nor is blocked by it")
    func transactionLeftOpen() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.sqlite.connections.write { db in
            try db.execute(sql: "BEGIN IMMEDIATE")
            try db.execute(sql: "UPDATE merchant_key SET state = 'suspended'")
        }
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.keyRecords().map(\.state) == [.active])
    }

    @Test("reports no failure for a key's change whose acknowledgement was lost")
    func recordAcknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await fixture.ledger.keyRecords().map(\.state) == [.suspended])
        #expect(fixture.lostAcknowledgements == 1)
    }
}
