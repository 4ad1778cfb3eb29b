import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("Exports of the chain", .everyEngine)
struct AuditExportTests {
    private let signer = CheckpointSigner()

    /// Makes a ledger with 30 records and audit checkpoints of the records 10 and 20.
    private func thirty() async throws -> LedgerFixture {
        let fixture = try await LedgerFixture()
        for number in 1...30 {
            _ = try await fixture.releasing(number)(fixture.ledger)
            if number == 10 || number == 20 { try await signer.seal(fixture.ledger) }
        }
        return fixture
    }

    private func lines(_ export: AuditLinePages) async throws -> [StoredLine] {
        var lines: [StoredLine] = []
        for try await page in export { lines += page.lines }
        return lines
    }

    private func shape(_ lines: [StoredLine]) -> [String] {
        lines.map { line in
            switch line {
            case .record(let sequence, _): "\(sequence)"
            case .checkpoint(let sequence, _): "c\(sequence)"
            }
        }
    }

    private func numbers(_ sequences: ClosedRange<Int>) -> [String] { sequences.map { "\($0)" } }

    @Test(
        "exports all records in order, each checkpoint after the record that it seals, for any page size",
        arguments: [1, 3, 10, 500])
    func everything(pageSize: Int) async throws {
        let fixture = try await thirty()
        let shape = shape(try await lines(fixture.ledger.export(pageSize: pageSize)))
        #expect(shape == numbers(1...10) + ["c10"] + numbers(11...20) + ["c20"] + numbers(21...30))
        guard case .unsealed = try await signer.verdict(of: fixture.ledger) else {
            Issue.record("records 21 to 30 are not sealed")
            return
        }
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 30)
    }

    @Test("begins a part with the signed checkpoint before its first record and ends it with one, so that it verifies")
    func parts() async throws {
        let fixture = try await thirty()
        #expect(
            shape(try await lines(fixture.ledger.export(from: 13, through: 15)))
                == ["c10"] + numbers(11...20) + ["c20"])
        #expect(try await signer.verdict(of: fixture.ledger, from: 13, through: 15).intactRecords == 10)
        #expect(try await signer.verdict(of: fixture.ledger, from: 11, through: 20).intactRecords == 10)
        #expect(try await signer.verdict(of: fixture.ledger, from: 10, through: 10).intactRecords == 10)
        #expect(shape(try await lines(fixture.ledger.export(from: 21))) == ["c20"] + numbers(21...30))
        // An export from beyond the end contains only the records that no audit checkpoint seals.
        #expect(shape(try await lines(fixture.ledger.export(from: 99))) == ["c20"] + numbers(21...30))
    }

    @Test("exports nothing from an empty ledger")
    func empty() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await lines(fixture.ledger.export()).isEmpty)
        #expect(try await signer.verdict(of: fixture.ledger) == .unsealed([]))
    }

    @Test("leaves out records that come during the export, and verifies up to its start")
    func growing() async throws {
        let fixture = try await thirty()
        try await signer.seal(fixture.ledger)
        var verifier = ChainVerifier(keys: CheckpointKeys([try signer.publicKey]))
        for try await page in fixture.ledger.export(pageSize: 4) {
            verifier.consume(page.bytes[...])
            _ = try await fixture.releasing(1000 + page.sequence)(fixture.ledger)
        }
        #expect(verifier.verdict().intactRecords == 30)
    }

    @Test("verifies ten thousand records in small pages")
    func tenThousand() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        for start in stride(from: 0, to: 10_000, by: 500) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in start..<start + 500 {
                    let release = try fixture.releasing(number)
                    group.addTask { _ = try await release(ledger) }
                }
                try await group.waitForAll()
            }
            if start % 1000 == 500 { try await signer.seal(ledger) }
        }
        var verifier = ChainVerifier(keys: CheckpointKeys([try signer.publicKey]))
        var largest = 0
        for try await page in ledger.export() {
            largest = max(largest, page.bytes.count)
            verifier.consume(page.bytes[...])
        }
        #expect(verifier.verdict().intactRecords == 10_000)
        #expect(largest < 1 << 20)
    }

    @Test(
        "refuses a checkpoint of a record that the ledger does not have, and keeps the first of two for one record")
    func checkpoints() async throws {
        let fixture = try await thirty()
        let head = try await fixture.ledger.head()
        let foreign = try #require(ChainHead(node: head.node, sequence: 30, hash: .of([1])))
        let beyond = try #require(ChainHead(node: head.node, sequence: 31, hash: head.hash))
        let node2 = try #require(AuditNode("node-2"))
        let other = try #require(ChainHead(node: node2, sequence: 30, hash: head.hash))
        for head in [foreign, beyond, other] {
            let checkpoint = try await signer.checkpoint(of: head)
            await #expect(throws: LedgerFailure.foreignCheckpoint) { try await fixture.ledger.insert(checkpoint) }
        }
        let first = try await signer.seal(fixture.ledger)
        try await CheckpointSigner().seal(fixture.ledger)
        #expect(try await fixture.ledger.latestCheckpoint() == first)
        #expect(try await fixture.ledger.latestCheckpoint(below: 30)?.checkpoint.sequence == 20)
        #expect(try await fixture.ledger.latestCheckpoint(below: 10) == nil)
        #expect(try await fixture.ledger.firstCheckpoint(from: 11)?.checkpoint.sequence == 20)
        #expect(try await fixture.ledger.checkpoints(after: 10, limit: 5).map(\.checkpoint.sequence) == [20, 30])
        #expect(try await fixture.ledger.checkpoints(after: 0, limit: 2).map(\.checkpoint.sequence) == [10, 20])
    }
}
