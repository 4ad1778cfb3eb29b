import AuditChain
import Ledger
import Refusals
import Testing

@testable import Daemon
@testable import UsageRecording

@Suite("GET /v1/audit/head, and an export from a head")
struct AuditHeadTests {
    private func head(_ fixture: RecordRoutesFixture, _ query: [String: String] = [:]) async throws -> [UInt8] {
        try await fixture.audit.head(RecordRoutesFixture.request(query)).bytes
    }

    private func export(_ fixture: RecordRoutesFixture, _ query: [String: String]) async throws -> [UInt8] {
        try await fixture.audit.export(RecordRoutesFixture.request(query)).bytes
    }

    @Test("is a new audit checkpoint, like the last line of an export, and seals the record of this request")
    func newCheckpoint() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let answer = try await fixture.audit.head(RecordRoutesFixture.request())
        #expect(answer.header("Content-Type") == "application/jsonl")
        let line = try await answer.bytes
        let head = try #require(SignedCheckpoint(line: line.dropLast()))
        #expect(line.last == 0x0A)
        #expect(head.checkpoint.sequence == 31)
        #expect(fixture.seals.publicKey.verifies(head))
        #expect(try await fixture.newest.event == "audit_head")
        // The head seals all records so far. A later export contains this head.
        let later = try await export(fixture, [:])
        #expect(later.split(separator: 0x0A).contains { Array($0) == line.dropLast() })
        #expect(fixture.verdict(later, head: head).intact?.last == 32)
    }

    @Test("seals the record of this request as the first record of an empty ledger")
    func emptyLedger() async throws {
        let fixture = try await RecordRoutesFixture()
        #expect(SignedCheckpoint(line: try await head(fixture).dropLast())?.checkpoint.sequence == 1)
    }

    @Test("gives no head if the reading cannot be recorded, or while the HSM token cannot sign")
    func withoutHead() async throws {
        let fixture = try await RecordRoutesFixture()
        fixture.seals.refuse(Refusal(.hsmUnavailable, "The token is away."))
        await #expect(throws: Refusal.self) { _ = try await head(fixture) }
        fixture.seals.refuse(nil)
        fixture.reads.breakDown()
        let error = await #expect(throws: Refusal.self) { _ = try await head(fixture) }
        #expect(error?.code == .ledgerUnavailable)
    }

    @Test("counts the age from the last head that was given, and not from a failed request")
    func ageOfHead() async throws {
        let fixture = try await RecordRoutesFixture()
        fixture.clock.pass(.seconds(4000))
        #expect(fixture.headAge.elapsed == .seconds(4000))
        fixture.seals.refuse(Refusal(.hsmUnavailable, "The token is away."))
        await #expect(throws: Refusal.self) { _ = try await head(fixture) }
        await #expect(throws: Refusal.self) { _ = try await head(fixture, ["node": "node-2"]) }
        #expect(fixture.headAge.elapsed == .seconds(4000))
        fixture.seals.refuse(nil)
        _ = try await head(fixture)
        #expect(fixture.headAge.elapsed == .zero)
        fixture.clock.pass(.seconds(3))
        _ = try await export(fixture, [:])
        #expect(fixture.headAge.elapsed == .seconds(3))
    }

    @Test("refuses another node's name in a ledger with one node")
    func otherNodeRefused() async throws {
        let fixture = try await RecordRoutesFixture()
        for query in [["node": "all"], ["node": "node-1"]] {
            #expect(SignedCheckpoint.list(parsing: try await head(fixture, query))?.count == 1)
        }
        let error = await #expect(throws: Refusal.self) { _ = try await head(fixture, ["node": "node-2"]) }
        #expect(error?.code == .malformedRequest)
    }

    @Test("begins an export from the record after a head with that head, to prove the continuation")
    func continuation() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let kept = try #require(try await fixture.ledger.latestCheckpoint())
        #expect(kept.checkpoint.sequence == 20)
        let bytes = try await export(fixture, ["from": "21", "purpose": "verify"])
        #expect(bytes.starts(with: kept.line))
        let range = try #require(fixture.verdict(bytes, head: kept).intact)
        #expect((range.start, range.last) == (20, 31))
        // If the first requested record is between two audit checkpoints, the export begins with the earlier audit
        // checkpoint.
        #expect(fixture.verdict(try await export(fixture, ["from": "15"])).intact?.start == 10)
        #expect(fixture.verdict(try await export(fixture, ["from": "1"])).intact?.start == 0)
    }

    @Test("returns only the newest audit checkpoint for a position after the record's end")
    func afterTheEnd() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let bytes = try await export(fixture, ["from": "900"])
        #expect(bytes.split(separator: 0x0A).count == 1)
        #expect(SignedCheckpoint(line: bytes.dropLast())?.checkpoint.sequence == 31)
    }

    @Test(
        "accepts only a sequence as from, without conditions",
        arguments: [
            ["from": "0"], ["from": "-1"], ["from": "x"], ["from": ""], ["from": "99999999999999999999"],
            ["from": "1", "since": "2026-01-31T12:00:00Z"], ["from": "1", "key": "00010203"],
            ["from": "1", "follow": "true"], ["from": "1", "node": "all"], ["from": "1", "format": "csv"],
        ])
    func permittedQuery(query: [String: String]) async throws {
        let error = #expect(throws: Refusal.self) { _ = try AuditExportQuery(query) }
        #expect(error?.code == .malformedRequest)
        #expect(error?.details == "from")
    }
}
