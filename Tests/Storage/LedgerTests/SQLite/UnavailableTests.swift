import AuditChain
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

@Suite("A ledger that cannot write")
struct UnavailableTests {
    @Test("releases nothing while another program holds the lock, and continues afterwards")
    func locked() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let other = try DatabaseQueue(path: fixture.settings.path, configuration: configuration)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(fixture.request(1)) }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        // Refusals for which the ledger only reads keep their codes.
        #expect(
            try await fixture.releasing(2, reference: nil)(fixture.ledger) == RecordedVerdict(.replayed, sequence: nil))
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        try await fixture.ledger.probe()
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .released)
    }

    @Test(
        "releases nothing on a full disk, and continues when there is room again",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func fullDisk() async throws {
        let disk = try await SmallDisk(kibibytes: 1024)
        let fixture = try await LedgerFixture(at: disk.path + "/ledger.sqlite")
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await #require(fixture.sqlite.freeBytes()) > 65_536)
        try disk.fill()
        #expect(try await #require(fixture.sqlite.freeBytes()) < 16_384)
        for number in 2...4 {
            let error = await #expect(throws: LedgerFailure.self) {
                try await fixture.ledger.release(fixture.request(number))
            }
            guard case .unavailable(let reason)? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(reason.contains("full"), "\(reason)")
        }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        // Reads need no disk space.
        #expect(try await fixture.ledger.keyRecords().count == 1)
        try disk.free()
        #expect(try await #require(fixture.sqlite.freeBytes()) > 65_536)
        try await fixture.ledger.probe()
        for number in 2...4 {
            #expect(try await fixture.ledger.release(fixture.request(number, reference: nil)) == .released)
        }
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .replayed)
        await fixture.ledger.close()
        try await disk.unmount()
    }

    @Test("releases nothing while its file is removed or replaced, and continues when the file is back")
    func replaced() async throws {
        let fixture = try await LedgerFixture()
        let (path, files) = (fixture.settings.path, FileManager.default)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        // An operator might put such an older copy in the ledger's place.
        try files.copyItem(atPath: path, toPath: path + ".copy")
        try files.moveItem(atPath: path, toPath: path + ".away")
        for isCopyThere in [false, true] {
            if isCopyThere { try files.moveItem(atPath: path + ".copy", toPath: path) }
            let error = await #expect(throws: LedgerFailure.self) {
                try await fixture.ledger.release(fixture.request(2))
            }
            #expect("\(String(describing: error))".contains("removed or replaced"))
            await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
            // The ledger reads neither its open file nor the file in its place.
            await #expect(throws: LedgerFailure.self) { try await fixture.ledger.head() }
            await #expect(throws: LedgerFailure.self) { try await fixture.ledger.lines(1...1, limit: 1) }
            await #expect(throws: LedgerBackupError.self) { try await fixture.ledger.backup(to: path + ".backup") }
            #expect(!files.fileExists(atPath: path + ".backup"))
        }
        try files.removeItem(atPath: path)
        try files.moveItem(atPath: path + ".away", toPath: path)
        try await fixture.ledger.probe()
        #expect(try await fixture.ledger.release(fixture.request(2, reference: nil)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .replayed)
    }

    @Test(
        "cannot open on a full disk for now, which is no error of the configuration",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func openingOnFullDisk() async throws {
        let disk = try await SmallDisk(kibibytes: 256)
        try disk.fill()
        let settings = SQLiteLedger.Settings(path: disk.path + "/ledger.sqlite", node: "node-1")
        let error = await #expect(throws: LedgerOpeningError.self) { try await SQLiteLedger.open(settings) }
        guard case .notNow? = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        try disk.free()
        try await SQLiteLedger.open(settings).close()
        try await disk.unmount()
    }

    @Test(
        "fails a whole batch on a full disk, keeps its replays' codes, and continues the chain later",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func fullDiskInBatches() async throws {
        let disk = try await SmallDisk(kibibytes: 1024)
        let fixture = try await LedgerFixture(at: disk.path + "/ledger.sqlite")
        let signer = CheckpointSigner()
        #expect(try await fixture.releasing(1)(fixture.ledger) == RecordedVerdict(.released, sequence: 1))
        try disk.fill()
        let operations = try [fixture.releasing(1, reference: nil)] + (2...30).map { try fixture.releasing($0) }
        let answers = try await fixture.inOneBatch(operations)
        #expect(try answers[0].get() == RecordedVerdict(.replayed, sequence: nil))
        for answer in answers.dropFirst() { #expect(throws: LedgerFailure.self) { try answer.get() } }
        fixture.ledger.note(LedgerFixture.record(of: try fixture.request(1)))
        try await wait(for: "the dropped note") { fixture.events.dropped == 1 }
        try disk.free()
        let again = try await fixture.inOneBatch(operations.dropFirst().map { $0 })
        #expect(try again.map { try $0.get() } == (2...30).map { RecordedVerdict(.released, sequence: $0 + 1) })
        #expect(try await fixture.ledger.everyEntry()[1].event == "records_dropped")
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 31)
        await fixture.ledger.close()
        try await disk.unmount()
    }

    @Test("puts no value of the request into a failure's reason")
    func reasonsAreFixed() async throws {
        let fixture = try await LedgerFixture()
        try await DatabaseQueue(path: fixture.settings.path).write { try $0.execute(sql: "DROP TABLE claim") }
        let error = await #expect(throws: LedgerFailure.self) {
            try await fixture.ledger.release(fixture.request(1, caller: "canary-caller"))
        }
        let text = "\(error?.description ?? "") \(String(reflecting: error))"
        #expect(text.contains("SQLite"))
        #expect(!text.contains("canary"))
        #expect(!text.contains("INSERT"))
    }

    @Test("answers every call as unavailable after it was closed, and does not crash")
    func closed() async throws {
        let fixture = try await LedgerFixture()
        await fixture.ledger.close()
        await fixture.ledger.close()
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.release(fixture.request(1)) }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.keyRecords() }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
    }
}
