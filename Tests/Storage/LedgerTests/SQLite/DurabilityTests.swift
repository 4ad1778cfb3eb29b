import Foundation
import GRDB
import SQLiteFiles
import TestSupport
import Testing

@testable import Ledger

@Suite("Durability")
struct DurabilityTests {
    @Test("The writing connection really uses WAL with synchronous FULL")
    func pragmas() async throws {
        let fixture = try await LedgerFixture()
        let (journal, synchronous) = try await fixture.sqlite.connections.write { db in
            (try String.fetchOne(db, sql: "PRAGMA journal_mode"), try Int.fetchOne(db, sql: "PRAGMA synchronous"))
        }
        #expect(journal == "wal")
        #expect(synchronous == 2)
    }

    @Test("A connection with synchronous NORMAL, which GRDB chooses for WAL, is not taken as durable")
    func normalIsRefused() throws {
        let directory = try FreshDirectory()
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: directory.path("other.sqlite"), configuration: configuration)
        #expect(throws: DatabaseFileError.self) {
            try queue.writeWithoutTransaction { try DurableSQLite.requireDurability($0, path: "other.sqlite") }
        }
    }

    @Test("A connection with another journal than WAL is not taken as durable")
    func rollbackJournalIsRefused() throws {
        let directory = try FreshDirectory()
        let queue = try DatabaseQueue(path: directory.path("other.sqlite"))
        #expect(throws: DatabaseFileError.self) {
            try queue.writeWithoutTransaction { try DurableSQLite.requireDurability($0, path: "other.sqlite") }
        }
    }

    /// What a crash leaves is the files as they stand, without the shared memory.
    @Test("Every acknowledged release is in the files at once, as a crash would leave them")
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

    @Test("Claims and key records outlive a restart")
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

    @Test("A release whose acknowledgement got lost is found by its attempt, and stays one release")
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

    @Test("A commit that did not take place is unavailable, claims nothing, and the next one works")
    func commitFailed() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        try await fixture.breakCommits()
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(fixture.request(1)) }
        try await fixture.repairCommits()
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .released)
    }

    @Test("A transaction left open by a rollback that failed is neither read as committed nor in the way of the next")
    func transactionLeftOpen() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.sqlite.connections.write { db in
            try db.execute(sql: "BEGIN IMMEDIATE")
            try db.execute(sql: "UPDATE merchant_key SET state = 'suspended'")
        }
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.keyRecords().map(\.state) == [.active])
    }

    @Test("A key's change whose acknowledgement got lost is not reported as failed")
    func recordAcknowledgementLost() async throws {
        let fixture = try await LedgerFixture(isFaulty: true)
        fixture.loseAcknowledgement()
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await fixture.ledger.keyRecords().map(\.state) == [.suspended])
        #expect(fixture.lostAcknowledgements == 1)
    }
}
