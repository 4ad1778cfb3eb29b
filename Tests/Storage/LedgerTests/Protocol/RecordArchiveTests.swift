import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger

@Suite("Archives of the record's beginning", .everyEngine)
struct RecordArchiveTests {
    private func numbers(_ sequences: ClosedRange<Int>) -> [String] { sequences.map { "\($0)" } }

    @Test("begins the chain after the archive once its record is sealed, and is whole with the archive's file")
    func begins() async throws {
        let fixture = try await ArchiveFixture()
        let (archive, file) = try await fixture.archive(1...20)
        try await fixture.record(archive)
        // Archiving adds one record of the keys' states, and one of the archive itself.
        #expect(try await fixture.ledger.head().sequence == 32)
        #expect(try await fixture.ledger.lastArchive() == nil)
        #expect(try await fixture.ledger.unsealedArchive() == archive)
        #expect(try await fixture.remove() == [])
        #expect(try await fixture.shape().first == "1")

        try await fixture.signer.seal(fixture.ledger)
        #expect(try await fixture.ledger.lastArchive() == archive)
        #expect(try await fixture.ledger.unsealedArchive() == nil)
        let left = ["c20"] + numbers(21...30) + ["c30", "31", "32", "c32"]
        #expect(try await fixture.shape() == left)

        // The last archived record remains, with its checkpoint.
        #expect(try await fixture.remove(limit: 8) == [8, 8, 3])
        #expect(try await fixture.shape() == left)
        #expect(try await fixture.shape(from: 5) == left)
        #expect(try await fixture.ledger.lines(1...20, limit: 100).map(\.sequence) == [20, 20])
        #expect(try await fixture.ledger.checkpoints(after: 0, limit: 10).map(\.checkpoint.sequence) == [20, 30, 32])
        #expect(try await fixture.ledger.everyEntry().map(\.sequence) == Array(20...32))

        let (signer, ledger) = (fixture.signer, fixture.ledger)
        #expect(try await signer.verdict(of: ledger, beginning: .afterArchive).intactRecords == 12)
        #expect(try await signer.verdict(of: ledger, beginning: .record1).fault == .missing(from: 1, to: 20))
        #expect(try await signer.verdict(of: ledger, beginning: .record1, behind: file).intactRecords == 32)
    }

    @Test("records which file the archive is, and the keys' states after the archived records")
    func recorded() async throws {
        let fixture = try await ArchiveFixture()
        try await fixture.ledger.store(LedgerFixture.record(LedgerFixture.hash(2), state: .compromised))
        let (archive, _) = try await fixture.archive(1...20)
        try await fixture.record(archive)
        let entries = try await fixture.ledger.everyEntry().suffix(2)
        #expect(entries.last.flatMap(RecordArchive.init) == archive)
        let states = try #require(entries.first.flatMap(KeyStatesPart.init)).states
        let digests = try [fixture.fixture.key, LedgerFixture.hash(2)].map {
            try #require(AuditDigest(bytes: $0.bytes))
        }
        #expect(states == [digests[0]: .active, digests[1]: .compromised])
    }

    @Test("continues with a second archive where the first ended, and finds both in a third process")
    func second() async throws {
        let fixture = try await ArchiveFixture()
        let first = try await fixture.archived(1...10)
        try await fixture.remove()
        let second = try await fixture.archived(11...30)
        try await fixture.remove(limit: 7)
        let (signer, ledger) = (fixture.signer, fixture.ledger)
        #expect(
            try await signer.verdict(of: ledger, beginning: .record1, behind: first + second).intactRecords == 34)
        // The archives' files without the first, without the second, and in the wrong order.
        for (files, fault) in [
            (second, ChainFault.missing(from: 1, to: 10)), (first, .missing(from: 11, to: 30)),
            (second + first, .missing(from: 1, to: 10)),
        ] {
            #expect(try await signer.verdict(of: ledger, beginning: .record1, behind: files).fault == fault)
        }
        await ledger.close()
        let reopened = try await fixture.fixture.reopened()
        #expect(try await reopened.lastArchive()?.last == 30)
        #expect(try await reopened.lastArchive()?.first == 11)
        #expect(try await reopened.head().sequence == 34)
        #expect(try await signer.verdict(of: reopened, beginning: .afterArchive).intactRecords == 4)
        await reopened.close()
    }

    @Test("finds a change of any byte of an archive")
    func everyByte() async throws {
        guard StorageEngine.current == .sqlite else { return }
        let fixture = try await ArchiveFixture()
        let file = try await fixture.archived(1...10)
        let keys = CheckpointKeys([try fixture.signer.publicKey])
        var rest: [UInt8] = []
        for try await page in fixture.ledger.export() { rest += page.bytes }
        for position in file.indices {
            var changed = file
            changed[position] ^= 0x20
            var verifier = ChainVerifier(keys: keys, beginning: .record1)
            verifier.consume((changed + rest)[...])
            #expect(!verifier.verdict().isIntact, "byte \(position)")
        }
    }

    @Test("archives the next sealed part of the record only, and writes nothing for any other")
    func refused() async throws {
        let fixture = try await ArchiveFixture()
        let (whole, _) = try await fixture.archive(1...20)
        func other(first: Int = 1, last: Int = 20, hash: AuditDigest? = nil) throws -> RecordArchive {
            try #require(
                RecordArchive(first: first, last: last, hash: hash ?? whole.hash, digest: whole.digest, size: 1))
        }
        let unsealedHash = try await fixture.archive(1...19).archive.hash
        for (archive, conflict) in [
            (try other(first: 2), ArchiveConflict.notNext(expected: 1)), (try other(hash: .of([1])), .unsealed),
            (try other(last: 19, hash: unsealedHash), .unsealed), (try other(last: 99), .unsealed),
        ] {
            await #expect(throws: LedgerFailure.archive(conflict)) { try await fixture.record(archive) }
        }
        #expect(try await fixture.ledger.head().sequence == 30)
        try await fixture.record(whole)
        await #expect(throws: LedgerFailure.archive(.notNext(expected: 21))) { try await fixture.record(whole) }
    }

    @Test("reports a removed beginning as missing, regardless of rows in the archive table")
    func removedByOthers() async throws {
        let fixture = try await ArchiveFixture()
        try await fixture.removeDirectly(through: 20)
        let (signer, ledger) = (fixture.signer, fixture.ledger)
        #expect(try await signer.verdict(of: ledger, beginning: .afterArchive).exitStatus == 1)
        try await fixture.insertUnrecordedArchive(through: 20)
        #expect(try await ledger.lastArchive()?.last == 20)
        #expect(
            try await signer.verdict(of: ledger, beginning: .afterArchive).fault == .missing(from: 1, to: 20))
        // The record of the archiving is sealed, but it states other records.
        try await fixture.forgetArchives()
        try await fixture.archived(1...30)
        try await fixture.forgetArchives()
        try await fixture.insertUnrecordedArchive(through: 20)
        #expect(
            try await signer.verdict(of: ledger, beginning: .afterArchive).fault == .missing(from: 1, to: 20))
    }

    @Test("compares what the HSM token remembers with the remaining records")
    func compared() async throws {
        let fixture = try await ArchiveFixture()
        let remembered = try #require(try await fixture.ledger.latestCheckpoint()).checkpoint
        try await fixture.archived(1...30)
        try await fixture.remove()
        #expect(try await fixture.ledger.compare(with: remembered) == .continues)
        let newer = try #require(try await fixture.ledger.latestCheckpoint()).checkpoint
        #expect(try await fixture.ledger.compare(with: newer) == .continues)
    }

    @Test("goes on releasing while archived records are removed, and loses none")
    func underLoad() async throws {
        let fixture = try await ArchiveFixture()
        try await fixture.archived(1...30)
        let ledger = fixture.ledger
        let verdicts = try await withThrowingTaskGroup(of: ReleaseVerdict?.self) { group in
            group.addTask {
                try await fixture.remove(limit: 1)
                return nil
            }
            for number in 1...60 {
                let release = try fixture.fixture.request(number)
                group.addTask {
                    try await ledger.release(release, recording: LedgerFixture.record(of: release)).verdict
                }
            }
            return try await group.reduce(into: [ReleaseVerdict]()) { all, verdict in all += verdict.map { [$0] } ?? []
            }
        }
        #expect(verdicts == Array(repeating: .released, count: 60))
        try await fixture.signer.seal(ledger)
        #expect(try await fixture.signer.verdict(of: ledger, beginning: .afterArchive).intactRecords == 62)
        #expect(try await ledger.everyEntry().count == 63)
    }
}

@Suite("Records that the daemon's login cannot remove from a database")
struct DatabaseArchiveTests {
    @Test("keeps the last thirteen months, and other records until their archive is recorded and sealed")
    func thirteenMonths() async throws {
        let fixture = try await ArchiveFixture(engine: .postgresql)
        guard case .postgresql(let database, _) = fixture.fixture.store else { throw LedgerFixture.Broken() }
        // The server's functions use its real clock again, as in production.
        try await database.sql(
            """
            CREATE OR REPLACE FUNCTION paytokend.present() RETURNS bigint LANGUAGE sql VOLATILE
            AS 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'
            """)
        _ = try await fixture.ledger.append(AuditRecord(time: AuditTime(Date()), event: .verify))
        try await fixture.signer.seal(fixture.ledger, at: Date())
        // The server itself enforces this rule, because a client with the daemon's login can call any function.
        await #expect(throws: LedgerFailure.self) { _ = try await fixture.archived(1...31) }
        #expect(try await fixture.ledger.lastArchive() == nil)
        #expect(try await fixture.ledger.head().sequence == 31)
        try await fixture.archived(1...30)
        #expect(try await fixture.remove() == [29])
    }
}
