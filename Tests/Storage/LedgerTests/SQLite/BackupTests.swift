import AuditChain
import Crypto
import Foundation
import GRDB
import KeyTypes
import Locks
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger
@testable import OfflineLedger
@testable import SQLiteLedger

@Suite("Backups")
struct BackupTests {
    private let signer = CheckpointSigner()

    @Test("restores a copy that was made while a renewal was open, which then goes on")
    func openRenewal() async throws {
        let fixture = try await LedgerFixture(engine: .sqlite)
        let key = LedgerFixture.hash(2)
        try await fixture.ledger.store(LedgerFixture.record(key, state: .preActivation))
        var stored = StoredRenewal(
            identifier: .random(),
            renewal: Renewal(
                merchantIdentifier: "merchant.com.example", use: .processing, algorithm: .ec, newKey: key),
            requesterUID: 1001, requesterName: "alice", startedAt: LedgerFixture.noon)
        var change = AdministrativeChange(
            at: LedgerFixture.noon,
            records: [
                AuditRecord(
                    time: AuditTime(LedgerFixture.noon), event: .renewalStep(RenewalStepDetails(step: .start)))
            ])
        change.renewal = .start(stored)
        try await fixture.ledger.apply(change)
        let copy = try await fixture.sqlite.backup(to: fixture.directory.path("copy.sqlite"))

        let directory = try FreshDirectory()
        var settings = fixture.settings
        settings.path = directory.path("ledger.sqlite")
        let file = try FileHandle(forReadingFrom: URL(filePath: copy.path))
        _ = try LedgerFileRestore(
            copy: file, log: nil, named: "copy.sqlite", expected: nil, to: settings.path, now: LedgerFixture.noon
        ).carryOut(changes: true)
        let restored = try await SQLiteLedger.open(settings)
        stored.node = fixture.ledger.node
        #expect(try await restored.openRenewals() == [stored])
        await restored.close()
    }

    @Test("copies one consistent state under load, with all answered releases, and restores it")
    func underLoad() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        let answered = Mutex(0)
        let load = Task {
            for round in 0..<10_000 where !Task.isCancelled {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for number in 0..<8 {
                        let release = try fixture.releasing(round * 8 + number)
                        group.addTask { _ = try await release(ledger) }
                    }
                    try await group.waitForAll()
                }
                answered.withLock { $0 = (round + 1) * 8 }
            }
        }
        try await wait(for: "some releases") { answered.withLock { $0 } >= 80 }
        let before = answered.withLock { $0 }
        let backup = try await ledger.backup(to: fixture.directory.path("copy.sqlite"))
        let seen = answered.withLock { $0 }
        try await wait(for: "releases after the backup") { answered.withLock { $0 } > seen }
        load.cancel()
        try await load.value

        #expect(backup.sequence >= before)
        let file = try Data(contentsOf: URL(filePath: backup.path))
        #expect(backup.bytes == file.count)
        #expect(backup.digest == .of(file))
        let attributes = try FileManager.default.attributesOfItem(atPath: backup.path)
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path).filter { $0.contains("copy") }
                == ["copy.sqlite"])

        var settings = fixture.settings
        settings.path = backup.path
        let restored = try await SQLiteLedger.open(settings)
        #expect(try await restored.head().sequence == backup.sequence)
        // The copy contains a mark, so that a daemon recognises it as a copy however it replaces the ledger. The ledger
        // itself has no such mark.
        #expect(
            try await restored.releaseStatus().holds.map(\.finding) == [
                LedgerHold.Finding(kind: .restored, ledgerSequence: backup.sequence, remembered: nil)
            ])
        #expect(try await ledger.releaseStatus().holds.isEmpty)
        for number in 0..<before {
            #expect(try await restored.release(fixture.request(number, reference: nil)) == .replayed)
        }
        try await signer.seal(restored)
        #expect(try await signer.verdict(of: restored).intactRecords == backup.sequence)
        await restored.close()
    }

    @Test("overwrites neither a file nor a link, and leaves nothing else")
    func refusals() async throws {
        let fixture = try await LedgerFixture()
        let taken = try fixture.directory.write("kept", to: "taken")
        await #expect(throws: LedgerBackupError.exists(path: taken)) { try await fixture.ledger.backup(to: taken) }
        #expect(try String(contentsOfFile: taken, encoding: .utf8) == "kept")
        let link = fixture.directory.path("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "nowhere")
        await #expect(throws: LedgerBackupError.exists(path: link)) { try await fixture.ledger.backup(to: link) }
        let itself = fixture.settings.path
        await #expect(throws: LedgerBackupError.exists(path: itself)) { try await fixture.ledger.backup(to: itself) }
        let missing = fixture.directory.path("missing/copy")
        await #expect(throws: LedgerBackupError.self) { try await fixture.ledger.backup(to: missing) }
        await #expect(throws: LedgerBackupError.notAbsolute(path: "copy")) {
            try await fixture.ledger.backup(to: "copy")
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: fixture.directory.path).sorted()
        #expect(names.filter { !$0.hasPrefix("ledger.sqlite") } == ["link", "taken"])
    }

    @Test(
        "leaves nothing of a backup that does not fit, and continues",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func fullDisk() async throws {
        let disk = try await SmallDisk(kibibytes: 64)
        let fixture = try await LedgerFixture()
        for number in 1...50 { _ = try await fixture.releasing(number)(fixture.ledger) }
        let error = await #expect(throws: LedgerBackupError.self) {
            try await fixture.ledger.backup(to: disk.path + "/copy")
        }
        guard case .cannotWrite = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path).isEmpty)
        #expect(try await fixture.releasing(51)(fixture.ledger).verdict == .released)
        try await disk.unmount()
    }
}
