import AuditChain
import Foundation
import GRDB
import Glibc
import TestSupport
import Testing

@testable import Ledger

@Suite("A ledger whose writes fail")
struct BrokenWritesTests {
    private let signer = CheckpointSigner()

    @Test("releases nothing on an I/O error, keeps the refusals' codes, and continues afterwards")
    func inputOutputError() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.releasing(1)(fixture.ledger).sequence == 1)
        let broken = try BrokenWrites(to: fixture.settings.path + "-wal")
        try await requireNoRelease(fixture, saying: "disk I/O error")
        broken.repair()
        try await requireRecovery(fixture)
    }

    @Test("releases nothing on a read-only database, keeps the refusals' codes, and continues afterwards")
    func readOnly() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.releasing(1)(fixture.ledger).sequence == 1)
        try await fixture.sqlite.connections.write { try $0.execute(sql: "PRAGMA query_only = ON") }
        try await requireNoRelease(fixture, saying: "readonly")
        try await fixture.sqlite.connections.write { try $0.execute(sql: "PRAGMA query_only = OFF") }
        try await requireRecovery(fixture)
    }

    private func requireNoRelease(_ fixture: LedgerFixture, saying words: String) async throws {
        let operations = try (2...6).map { try fixture.releasing($0) } + [fixture.releasing(1, reference: nil)]
        for round in 1...2 {
            let answers = try await fixture.inOneBatch(operations)
            for answer in answers.dropLast() {
                let error = #expect(throws: LedgerFailure.self) { try answer.get() }
                #expect(error?.description.contains(words) == true, "\(String(describing: error))")
            }
            #expect(try answers.last?.get() == RecordedVerdict(.replayed, sequence: nil))
            fixture.ledger.note(LedgerFixture.record(of: try fixture.request(1)))
            try await wait(for: "the dropped note") { fixture.events.dropped == round }
        }
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        #expect(try await fixture.ledger.head().sequence == 1)
    }

    private func requireRecovery(_ fixture: LedgerFixture) async throws {
        try await fixture.ledger.probe()
        for number in 2...6 {
            let recorded = try await fixture.releasing(number, reference: nil)(fixture.ledger)
            #expect(recorded == RecordedVerdict(.released, sequence: number + 1))
        }
        let dropped = try await fixture.ledger.everyEntry()[1]
        #expect(dropped.event == "records_dropped")
        #expect(dropped.details["count"]?.numberValue?.text == "2")
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 7)
        // The next start must read the same records from the files.
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await signer.verdict(of: again).intactRecords == 7)
        await again.close()
    }
}

/// Makes every write of this process to an open file fail with EBADF. For that purpose, it replaces each of the file's
/// descriptors by a read-only one.
private struct BrokenWrites {
    private let replaced: [(number: Int32, saved: Int32)]

    init(to path: String) throws {
        let reading = try FileHandle(forReadingFrom: URL(filePath: path))
        defer { try? reading.close() }
        let target = try Self.target(of: reading.fileDescriptor)
        let numbers = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { Int32($0) }
        replaced = numbers.filter { $0 != reading.fileDescriptor && (try? Self.target(of: $0)) == target }.map {
            number in
            let saved = dup(number)
            dup2(reading.fileDescriptor, number)
            return (number, saved)
        }
        guard !replaced.isEmpty else { throw LedgerFixture.Broken() }
    }

    func repair() {
        for (number, saved) in replaced {
            dup2(saved, number)
            close(saved)
        }
    }

    private static func target(of descriptor: Int32) throws -> String {
        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
    }
}
