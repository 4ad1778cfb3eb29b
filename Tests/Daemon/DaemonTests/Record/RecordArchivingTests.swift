import AuditChain
import Foundation
import GRDB
import KeyTypes
import Ledger
import Locks
import MerchantKeys
import PaymentToken
import Telemetry
import TestSupport
import Testing

@testable import DaemonConfiguration
@testable import UsageRecording

/// The archiving of an audit record that covers slightly more than thirteen months. In each test, record 1 is the first
/// use of the audit key.
@Suite("Archiving of old records")
struct RecordArchivingTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture
    private let clock: SteppedDate

    /// A clock that shows the same time until it is set.
    private final class SteppedDate: Sendable {
        private let date: Mutex<Date>

        init(_ date: Date) { self.date = Mutex(date) }

        var now: Date {
            get { date.withLock { $0 } }
            set { date.withLock { $0 = newValue } }
        }
    }

    private static func date(_ text: String) throws -> Date {
        try #require(AuditTime(rfc3339: text)).date
    }

    /// Makes ten records and an audit checkpoint on the 10th and the 20th of October, November and December 2025.
    /// Record 1 is the first use of the audit key. The groups of ten records follow it.
    init() async throws {
        directory = try FreshDirectory()
        let clock = SteppedDate(try Self.date("2025-10-10T12:00:00Z"))
        self.clock = clock
        fixture = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken(), clock: WallClock { clock.now })
        await fixture.gate.compare()
        for month in 10...12 {
            for day in [10, 20] {
                clock.now = try Self.date("2025-\(month)-\(day)T12:00:00Z")
                try await fixture.append(10, at: clock.now)
                try await fixture.checkpoints.seal()
            }
        }
        clock.now = try Self.date("2027-01-02T00:00:00Z")
    }

    private var archives: String { directory.path("archives") }

    /// Makes a release, because the archiving trusts the clock only until a day after the newest one of Apple Pay.
    private func release(of wallet: Wallet = .applePay, at time: Date? = nil) async throws {
        let time = time ?? clock.now
        let use: KeyUse = wallet == .googlePay ? .googlePay : .processing
        let key = try #require(PublicKeyHash(bytes: [UInt8](repeating: use == .googlePay ? 8 : 7, count: 32)))
        if try await fixture.ledger.keyRecord(key) == nil {
            let known = KeyRecord(
                publicKeyHash: key, merchantIdentifier: "merchant.com.example", algorithm: .ec, use: use,
                state: .active,
                createdAt: time, origin: .generated)
            try await fixture.ledger.apply(AdministrativeChange(at: time, key: known, records: []))
        }
        func name() throws -> TransactionIdentifier {
            try #require(TransactionIdentifier(bytes: (0..<32).map { _ in UInt8.random(in: 0...255) }))
        }
        var release = Release(
            of: wallet, transactionId: try name(), publicKeyHash: key, caller: "checkout", referenceDigest: nil,
            contentDigest: [UInt8](repeating: 9, count: 32), at: time)
        release.signedAt = time
        if wallet == .googlePay { release.messageClaim = try name() }
        let record = AuditRecord(time: AuditTime(time), event: .decrypt(reference: nil))
        #expect(try await fixture.ledger.release(release, recording: record).verdict == .released)
    }

    private func archiving(
        _ retain: Duration = .seconds(397 * 86_400), in directory: String? = nil, age: Stopwatch = Stopwatch(),
        released: Bool = true
    ) async throws -> RecordArchiving {
        if released { try await release() }
        let others = OtherNodesAuditKeys(
            ledger: fixture.ledger, gate: fixture.gate, clock: WallClock { [clock] in clock.now },
            logger: RecordFixture.quiet)
        let settings = LedgerSettings.Archive(retain: retain, directory: directory ?? archives)
        let made = RecordArchiving(
            settings, ledger: fixture.ledger, gate: fixture.gate, checkpoints: fixture.checkpoints,
            auditKeysOfOthers: others, clock: WallClock { [clock] in clock.now }, logger: RecordFixture.quiet,
            age: age)
        return try #require(made)
    }

    private func files() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: archives).sorted()
    }

    private func bytes(_ file: String) throws -> [UInt8] {
        try [UInt8](Data(contentsOf: URL(filePath: "\(archives)/\(file)")))
    }

    /// Verifies these files and then the ledger, as an auditor would.
    private func verdict(after files: [String]) async throws -> ChainVerdict {
        var verifier = ChainVerifier(keys: CheckpointKeys(try await fixture.checkpoints.keys()), beginning: .record1)
        for file in files { verifier.consume(try bytes(file)[...]) }
        try await fixture.checkpoints.seal()
        for try await page in fixture.ledger.export() { verifier.consume(page.bytes[...]) }
        return verifier.verdict()
    }

    private func isWhole(after files: [String]) async throws -> Bool {
        if case .intact(let ranges) = try await verdict(after: files) { ranges.map(\.start) == [0] } else { false }
    }

    @Test("moves whole months of sufficient age into a file that forms one chain with the ledger")
    func wholeMonths() async throws {
        // 397 days before 2 January 2027 is 1 December 2025, so October and November are archived.
        let archiving = try await archiving()
        await archiving.run()
        #expect(archiving.warnings == [])
        #expect(try files() == ["node-1.1-41.jsonl"])
        #expect(try await fixture.ledger.lines(1...41, limit: 100).map(\.sequence) == [41, 41])
        #expect(try await isWhole(after: files()))
        let attributes = try FileManager.default.attributesOfItem(atPath: "\(archives)/node-1.1-41.jsonl")
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
        let archive = try #require(try await fixture.ledger.lastArchive())
        #expect(AuditDigest.of(try bytes("node-1.1-41.jsonl")) == archive.digest)
        #expect(archive.size == (attributes[.size] as? NSNumber)?.intValue)

        // Later runs in the same month archive nothing more. December is archived a month later.
        await archiving.run()
        clock.now = try Self.date("2027-01-31T23:59:59Z")
        await archiving.run()
        #expect(try files().count == 1)
        clock.now = try Self.date("2027-02-02T00:00:00Z")
        try await release()
        await archiving.run()
        #expect(try files() == ["node-1.1-41.jsonl", "node-1.42-61.jsonl"])
        #expect(try await isWhole(after: files()))
        #expect(try await !isWhole(after: ["node-1.42-61.jsonl"]))
        #expect(try await !isWhole(after: ["node-1.1-41.jsonl"]))
    }

    @Test("archives no record before it is old enough")
    func tooYoung() async throws {
        let archiving = try await archiving(.seconds(500 * 86_400))
        await archiving.run()
        #expect(!FileManager.default.fileExists(atPath: archives))
        #expect(try await fixture.ledger.lastArchive() == nil)
        #expect(archiving.warnings == [])
    }

    @Test("keeps a record with a time in the future, and all records after it, until that time is old enough")
    func clockAhead() async throws {
        clock.now = try Self.date("2026-01-05T00:00:00Z")
        try await fixture.append(3, at: try Self.date("2029-01-01T00:00:00Z"))
        try await fixture.checkpoints.seal()
        try await fixture.append(3, at: clock.now)
        try await fixture.checkpoints.seal()
        clock.now = try Self.date("2028-01-01T00:00:00Z")
        try await archiving().run()
        #expect(try files() == ["node-1.1-61.jsonl"])
    }

    @Test("ends an archive with the last audit checkpoint of its months, also if a later one seals only older records")
    func sealedLater() async throws {
        // 397 days before 5 March 2027 is 1 February 2026.
        try await fixture.append(10, at: try Self.date("2026-01-20T12:00:00Z"))
        clock.now = try Self.date("2026-02-01T00:10:00Z")
        try await fixture.checkpoints.seal()
        clock.now = try Self.date("2027-03-05T00:00:00Z")
        try await archiving().run()
        #expect(try files() == ["node-1.1-61.jsonl"])
        #expect(try await isWhole(after: files()))
    }

    @Test("archives nothing early when the clock is ahead of the newest release")
    func wrongClock() throws {
        let archive = LedgerSettings.Archive(retain: .seconds(397 * 86_400), directory: "/")
        let now = try Self.date("2030-06-15T00:00:00Z")
        // The newest release plus one day, minus 397 days, is 14 May 2025. The cut-off is the beginning of that month.
        #expect(
            archive.cutOff(at: now, confirmed: try Self.date("2026-06-14T00:00:00Z")).text.hasPrefix(
                "2025-05-01T00"))
        #expect(
            archive.cutOff(at: now, confirmed: try Self.date("2031-01-01T00:00:00Z")).text.hasPrefix(
                "2029-05-01T00"))
    }

    @Test("archives nothing before the first release, and names the clock as the reason")
    func neverReleased() async throws {
        let archiving = try await archiving(released: false)
        await archiving.run()
        #expect(!FileManager.default.fileExists(atPath: archives))
        #expect(archiving.warnings.count == 1)
        #expect(archiving.warnings.first?.contains("2027-01-02T00:00:00.000Z") == true)
        try await release()
        await archiving.run()
        #expect(archiving.warnings == [])
        #expect(try files() == ["node-1.1-41.jsonl"])
    }

    @Test("archives nothing on the evidence of Google Pay, whose messages are released with a clock six days ahead")
    func googlePay() async throws {
        let archiving = try await archiving(released: false)
        // It is 27 December 2026, but the clock shows 2 January.
        let now = clock.now
        try await release(of: .googlePay)
        await archiving.run()
        #expect(archiving.warnings.first?.contains("only a release of Apple Pay confirms the clock") == true)
        try await release(at: now - 6 * 86_400)
        try await release(of: .googlePay)
        await archiving.run()
        #expect(archiving.warnings == [])
        // By the clock, November 2025 was old enough; by Apple's confirmation only October is.
        #expect(try files() == ["node-1.1-21.jsonl"])
        try await release()
        await archiving.run()
        #expect(try files() == ["node-1.1-21.jsonl", "node-1.22-41.jsonl"])
    }

    /// Returns the lines that the next archive must contain.
    private func expectedFile() async throws -> [UInt8] {
        var file: [UInt8] = []
        for try await page in fixture.ledger.export(from: 1, through: 41) { file += page.bytes }
        return file
    }

    @Test(
        "continues after a kill at any step, and loses no record",
        arguments: ["partial", "published", "recorded", "sealed"])
    func killedAtAnyStep(at step: String) async throws {
        let file = try await expectedFile()
        let (archives, name) = (archives, "node-1.1-41.jsonl")
        try FileManager.default.createDirectory(atPath: archives, withIntermediateDirectories: false)
        if step == "partial" {
            try Data(file.prefix(100)).write(to: URL(filePath: "\(archives)/.node-1.1.partial"))
        } else {
            try Data(file).write(to: URL(filePath: "\(archives)/\(name)"))
        }
        if step == "recorded" || step == "sealed" {
            let line = try #require(try await fixture.ledger.lines(41...41, limit: 1).first)
            var change = AdministrativeChange(at: clock.now, records: [])
            change.archive = RecordArchive(
                first: 1, last: 41, hash: try AuditEntry(line: line.bytes).hash, digest: .of(file), size: file.count)
            try await fixture.ledger.apply(change)
        }
        if step == "sealed" {
            try await fixture.checkpoints.seal()
            #expect(try await fixture.ledger.removeArchivedRecords(limit: 5) == 5)
        }
        try await archiving().run()
        #expect(try files() == [name])
        #expect(try await isWhole(after: [name]))
        #expect(try await fixture.ledger.lines(1...40, limit: 100).isEmpty)
        let events = try await fixture.entries.map(\.event)
        #expect(events.count { $0 == "record_archive" } == 1)
    }

    @Test(
        "removes nothing while the recorded file is missing or different, and continues once it is back",
        arguments: [true, false])
    func fileGone(isMissing: Bool) async throws {
        let file = try await expectedFile()
        try FileManager.default.createDirectory(atPath: archives, withIntermediateDirectories: false)
        if !isMissing { try Data(file.dropLast()).write(to: URL(filePath: "\(archives)/node-1.1-41.jsonl")) }
        let line = try #require(try await fixture.ledger.lines(41...41, limit: 1).first)
        var change = AdministrativeChange(at: clock.now, records: [])
        change.archive = RecordArchive(
            first: 1, last: 41, hash: try AuditEntry(line: line.bytes).hash, digest: .of(file), size: file.count)
        try await fixture.ledger.apply(change)
        let archiving = try await archiving()
        await archiving.run()
        #expect(archiving.warnings.count == 1)
        #expect(archiving.warnings.first?.contains("node-1.1-41.jsonl") == true)
        #expect(try await fixture.ledger.lines(1...41, limit: 100).count > 41)
        try Data(file).write(to: URL(filePath: "\(archives)/node-1.1-41.jsonl"))
        await archiving.run()
        #expect(archiving.warnings == [])
        #expect(try await fixture.ledger.lines(1...40, limit: 100).isEmpty)
        #expect(try await isWhole(after: ["node-1.1-41.jsonl"]))
    }

    @Test("leaves another file of the same name alone, and records nothing")
    func otherFileKept() async throws {
        try FileManager.default.createDirectory(atPath: archives, withIntermediateDirectories: false)
        try Data("other content".utf8).write(to: URL(filePath: "\(archives)/node-1.1-41.jsonl"))
        let archiving = try await archiving()
        await archiving.run()
        #expect(archiving.warnings.first?.contains("is not the archive") == true)
        #expect(try bytes("node-1.1-41.jsonl") == Array("other content".utf8))
        #expect(try files() == ["node-1.1-41.jsonl"])
        #expect(try await fixture.ledger.lastArchive() == nil)
        #expect(try await fixture.ledger.unsealedArchive() == nil)
    }

    @Test("does not archive a record that was changed in the ledger")
    func changedRecord() async throws {
        let queue = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try await queue.write {
            try $0.execute(
                sql: """
                    UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), 'verify', 'decrypt') AS BLOB)
                    WHERE sequence = 9
                    """)
        }
        try queue.close()
        let archiving = try await archiving()
        await archiving.run()
        #expect(archiving.warnings.first?.contains("does not verify") == true)
        #expect(try files() == [])
        #expect(try await fixture.ledger.unsealedArchive() == nil)
    }

    @Test("refuses a directory that others can write to, and reports a growing age until it is fixed")
    func openDirectory() async throws {
        try FileManager.default.createDirectory(
            atPath: archives, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o777])
        let time = HandClock()
        let archiving = try await archiving(age: Stopwatch { time.now })
        time.pass(.seconds(3600))
        await archiving.run()
        #expect(archiving.age.elapsed == .seconds(3600))
        #expect(archiving.warnings.first?.contains("can be written by others") == true)
        #expect(try files() == [])
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: archives)
        await archiving.run()
        #expect(archiving.warnings == [])
        #expect(archiving.age.elapsed == .zero)
    }

    @Test(
        "archives nothing into a file system with little free space, which the ledger may need",
        .enabled("run it as root, who can mount a small file system") { await SmallDisk.isPermitted })
    func fullDisk() async throws {
        let disk = try await SmallDisk(kibibytes: 1024)
        let archiving = try await archiving(in: disk.path)
        await archiving.run()
        #expect(archiving.warnings.first?.contains("MiB left") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path) == [])
        #expect(try await fixture.ledger.unsealedArchive() == nil)
        try await disk.unmount()
    }

    @Test("archives nothing while the gate waits")
    func waitingGate() async throws {
        fixture.gate.setPosition(.waiting)
        let time = HandClock()
        let archiving = try await archiving(age: Stopwatch { time.now })
        time.pass(.seconds(3600))
        await archiving.run()
        #expect(archiving.age.elapsed == .seconds(3600))
        #expect(!FileManager.default.fileExists(atPath: archives))
    }

    @Test("lets the daemon's own check of the record continue after an archive, also in the next process")
    func checkContinues() async throws {
        await fixture.check.run()
        try await archiving().run()
        await fixture.check.run()
        #expect(fixture.check.finding?.fault == nil)
        let next = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet)
        await next.run()
        #expect(next.finding != nil)
        #expect(next.finding?.fault == nil)
    }

    @Test("lets the HSM token find its remembered ledger after several archives and restarts")
    func restartsAfterArchives() async throws {
        try await archiving().run()
        await fixture.ledger.close()
        let again = try await RecordFixture(
            ledger: directory.path("ledger.sqlite"), hsmToken: fixture.hsmToken,
            clock: WallClock { [clock] in clock.now })
        await again.gate.compare()
        #expect(again.gate.position == .open)
    }
}
