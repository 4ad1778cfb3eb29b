import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals
import StrictJSON
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("GET /v1/audit/export and /v1/audit/public-key")
struct AuditExportTests {
    static func minute(_ number: Int) -> String {
        AuditTime(RecordRoutesFixture.noon.addingTimeInterval(Double(number) * 60)).text
    }

    func export(_ fixture: RecordRoutesFixture, _ query: [String: String] = [:]) async throws -> [UInt8] {
        try await fixture.audit.export(RecordRoutesFixture.request(query)).bytes
    }

    func sequences(_ export: [UInt8]) throws -> [Int] {
        try export.split(separator: 0x0A).filter { SignedCheckpoint(line: Array($0)) == nil }
            .map { try AuditEntry(line: Array($0)).sequence }
    }

    @Test("exports the whole chain, with the record of the export itself as the last one, and seals it")
    func wholeChain() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let answer = try await fixture.audit.export(RecordRoutesFixture.request())
        #expect(answer.header("Content-Type") == "application/jsonl")
        let export = try await answer.bytes
        let range = try #require(fixture.verdict(export).intact)
        #expect((range.start, range.last, range.sealed) == (0, 31, 31))
        #expect(try sequences(export) == Array(1...31))
        let entry = try await fixture.newest
        #expect(entry.event == "audit_export")
        #expect(entry.details["format"]?.stringValue == "jsonl")
        #expect(entry.details["first"]?.numberValue?.int == 1)
        #expect(entry.details["last"]?.numberValue?.int == 30)
    }

    @Test("begins an export, and the record of it, with the first record that is not archived")
    func afterArchive() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let last = try #require(try await fixture.ledger.lines(10...10, limit: 1).first)
        var change = AdministrativeChange(at: RecordRoutesFixture.noon, records: [])
        change.archive = RecordArchive(
            first: 1, last: 10, hash: try AuditEntry(line: last.bytes).hash, digest: .of([1]), size: 1)
        try await fixture.ledger.apply(change)
        try await fixture.seals.seal()
        for query in [[:], ["from": "4"], ["format": "csv"]] {
            let export = try await export(fixture, query)
            if query["format"] == nil { #expect(try sequences(export).first == 11) }
            #expect(try await fixture.newest.details["first"]?.numberValue?.int == 11, "\(query)")
        }
        _ = try await export(fixture, ["from": "12"])
        #expect(try await fixture.newest.details["first"]?.numberValue?.int == 12)
    }

    @Test("exports an empty ledger as the sealed record of the export itself")
    func emptyLedger() async throws {
        let fixture = try await RecordRoutesFixture()
        #expect(fixture.verdict(try await export(fixture)).intact?.last == 1)
    }

    @Test("exports many pages without a gap")
    func manyPages() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.fill(1234)
        #expect(fixture.verdict(try await export(fixture)).intact?.records == 1235)
    }

    @Test("lets a verifier find a changed record in the export")
    func changedRecordFound() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let line = try #require(try await fixture.lines().dropFirst(16).first)
        try fixture.overwrite(17, with: line.replacing("checkout", with: "checkin!"))
        let verdict = fixture.verdict(try await export(fixture))
        guard case .broken(let broken) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(broken.position?.sequence == 17)
    }

    @Test("begins at the signed audit checkpoint before the first record that since selects")
    func beginsBeforeSince() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let export = try await export(fixture, ["since": Self.minute(24)])
        let range = try #require(fixture.verdict(export).intact)
        #expect((range.start, range.last) == (20, 31))
        #expect(try await fixture.newest.details["first"]?.numberValue?.int == 24)
    }

    @Test("ends at the first audit checkpoint after the last record that until selects")
    func endsAfterUntil() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let export = try await export(fixture, ["since": Self.minute(12), "until": Self.minute(15)])
        let range = try #require(fixture.verdict(export).intact)
        #expect((range.start, range.last) == (10, 20))
        #expect(try await fixture.newest.details["last"]?.numberValue?.int == 14)
    }

    @Test("ends with an audit checkpoint made for the export when until is after the last one")
    func untilAfterLastCheckpoint() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let export = try await export(fixture, ["until": Self.minute(25)])
        #expect(fixture.verdict(export).intact?.last == 31)
    }

    @Test("returns an audit checkpoint for the chain's position if no record is selected")
    func noRecords() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let export = try await export(fixture, ["since": "2100-01-01T00:00:00Z"])
        let range = try #require(fixture.verdict(export).intact)
        #expect((range.start, range.records) == (31, 0))
    }

    @Test("refuses an export without the HSM token, which would be unsealed, and still gives CSV")
    func withoutToken() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        fixture.seals.refuse(Refusal(.hsmUnavailable, "The token is away."))
        let error = await #expect(throws: Refusal.self) { _ = try await export(fixture) }
        #expect(error?.code == .hsmUnavailable)
        #expect(!(try await export(fixture, ["format": "csv"])).isEmpty)
    }

    @Test("exports nothing if the reading cannot be recorded", arguments: ["jsonl", "csv"])
    func refusesUnrecorded(format: String) async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        fixture.reads.breakDown()
        let error = await #expect(throws: Refusal.self) { _ = try await export(fixture, ["format": format]) }
        #expect(error?.code == .ledgerUnavailable)
    }

    @Test("records that an export is for a verification, without a verdict, which only its reader can reach")
    func verificationRecorded() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        #expect(fixture.verdict(try await export(fixture, ["purpose": "verify"])).intact != nil)
        let entry = try await fixture.newest
        #expect(entry.event == "audit_verify")
        #expect(entry.details["records"]?.numberValue?.int == 30)
        #expect(entry.details["verdict"] == nil)
    }

    @Test(
        "refuses an impossible value by its parameter's name",
        arguments: [
            ("since", ["since": "x"]), ("until", ["until": "x"]), ("format", ["format": "xml"]),
            ("follow", ["follow": "yes"]), ("purpose", ["purpose": "fun"]),
            ("follow", ["follow": "true", "until": "2100-01-01T00:00:00Z"]),
            ("follow", ["follow": "true", "purpose": "verify"]), ("format", ["format": "csv", "purpose": "verify"]),
        ])
    func wrongValues(name: String, query: [String: String]) async throws {
        let fixture = try await RecordRoutesFixture()
        let error = await #expect(throws: Refusal.self) { _ = try await export(fixture, query) }
        #expect(error?.code == .malformedRequest)
        #expect(error?.details == name)
        #expect(error?.message.contains(name) == true)
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    // MARK: Conditions that leave gaps

    /// Query parameters that select records. `keeps` returns true if they select the record that
    /// RecordRoutesFixture.record makes for this number.
    private static let conditions: [(query: [String: String], keeps: @Sendable (Int) -> Bool)] = [
        (["key": RecordRoutesFixture.key(1).hex], { $0 % 3 == 1 }),
        (["key": RecordRoutesFixture.key(1).hex.uppercased()], { $0 % 3 == 1 }),
        (["key": String(RecordRoutesFixture.key(1).hex.prefix(9))], { $0 % 3 == 1 }),
        (["key": RecordRoutesFixture.key(1).base64], { $0 % 3 == 1 }),
        (["merchant": "merchant.two"], { $0 > 10 }),
        (["caller": "billing"], { $0 % 2 == 0 }),
        (["outcome": "signature_invalid"], { $0 % 5 == 0 }),
        (["transaction": AuditDigest.of([17, 0]).hex], { $0 == 17 }),
        (
            ["key": RecordRoutesFixture.key(2).hex, "caller": "checkout", "merchant": "merchant.two"],
            { $0 % 3 == 2 && $0 % 2 == 1 && $0 > 10 }
        ),
        (
            ["key": RecordRoutesFixture.key(1).hex, "since": minute(12), "until": minute(20)],
            { $0 % 3 == 1 && (12..<20).contains($0) }
        ),
    ]

    @Test("exports the records that meet the conditions, byte for byte", arguments: conditions.indices)
    func selectedRecords(index: Int) async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let stored = try await fixture.lines()
        let (query, keeps) = Self.conditions[index]
        let lines = String(decoding: try await export(fixture, query), as: UTF8.self).split(separator: "\n")
        let records = lines.filter { $0.hasPrefix("{\"node\":") }.map(String.init)
        #expect(records == (1...30).filter(keeps).map { stored[$0 - 1] })
        let entry = try await fixture.newest
        #expect(entry.event == "audit_export")
    }

    @Test("states the selection and its lack of proof in the first line, and no verifier finds it intact")
    func selectionSaysSo() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let query = ["key": RecordRoutesFixture.key(1).base64, "merchant": "merchant.two", "since": Self.minute(3)]
        let export = try await export(fixture, query)
        let lines = export.split(separator: 0x0A).map { Array($0) }
        let beginning = try #require(lines.first)
        let first = try #require(try JSONValue(parsing: beginning).objectValue)
        #expect(first.members.map(\.name) == ["filter", "proves"])
        let filter = try #require(first["filter"]?.objectValue)
        #expect(filter["node"] == .string("node-1"))
        #expect(filter["through"]?.numberValue?.int == 31)
        #expect(filter["key"] == .string(RecordRoutesFixture.key(1).hex))
        #expect(filter["merchant"] == .string("merchant.two"))
        #expect(filter["since"] == .string(Self.minute(3)))
        #expect(filter["caller"] == nil)
        #expect(first["proves"]?.stringValue?.hasPrefix("nothing by itself: ") == true)
        // The export begins with the audit checkpoint before record 13, its first record. It ends with the audit
        // checkpoint that was made for the export.
        #expect(SignedCheckpoint(line: lines[1])?.checkpoint.sequence == 10)
        #expect(SignedCheckpoint(line: try #require(lines.last))?.checkpoint.sequence == 31)
        #expect(fixture.verdict(export) == .filtered(records: 6))
        #expect(fixture.verdict(export).exitStatus == 1)
        // Without its first line, the export is a chain with gaps.
        let rest = Array(export.drop { $0 != 0x0A }.dropFirst())
        guard case .broken = fixture.verdict(rest) else {
            Issue.record("\(fixture.verdict(rest))")
            return
        }
    }

    @Test("returns the first line and the audit checkpoint when no record meets the conditions")
    func emptySelection() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        for query in [["caller": "nobody"], ["caller": "billing", "since": "2100-01-01T00:00:00Z"]] {
            #expect(fixture.verdict(try await export(fixture, query)) == .filtered(records: 0))
        }
    }

    @Test("exports a selection of many pages, and ends with the records present at its beginning")
    func longSelection() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.fill(1234)
        #expect(fixture.verdict(try await export(fixture, ["caller": "checkout"])) == .filtered(records: 617))
    }

    @Test(
        "refuses to follow or verify with conditions, because a selection proves nothing",
        arguments: [["follow": "true"], ["purpose": "verify"], ["follow": "true", "format": "csv"]])
    func refusesGaps(query: [String: String]) async throws {
        let fixture = try await RecordRoutesFixture()
        let query = query.merging(["merchant": "merchant.one"]) { first, _ in first }
        let error = await #expect(throws: Refusal.self) { _ = try await export(fixture, query) }
        #expect(error?.code == .malformedRequest)
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("sends later records and audit checkpoints to a follower, who can verify all of them")
    func followedExport() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let answer = try await fixture.audit.export(RecordRoutesFixture.request(["follow": "true"]))
        guard case .stream(let stream) = answer.http.body else {
            Issue.record("not streamed")
            return
        }
        #expect(stream.isEndless)
        let received = Shared([UInt8]())
        let task = Task { await stream.run(into: BodyWriter { piece in received.change { $0 += piece } }) }
        try await wait(for: "what there was") { fixture.verdict(received.current).intact?.last == 31 }

        try await fixture.append(32...40)
        try await wait(for: "the new records") { try sequences(received.current) == Array(1...40) }
        guard case .unsealed(let ranges) = fixture.verdict(received.current) else {
            Issue.record("sealed by nobody")
            return
        }
        #expect(ranges.first?.unsealed == 9)
        try await fixture.seals.seal()
        try await wait(for: "the new checkpoint") { fixture.verdict(received.current).intact?.sealed == 40 }

        // The next records arrive with an audit checkpoint, and more records follow it.
        try await fixture.append(41...45)
        try await fixture.seals.seal()
        try await fixture.append(46...50)
        try await wait(for: "the last records") { try sequences(received.current).last == 50 }
        task.cancel()
        #expect(await task.value)
        if case .broken(let broken) = fixture.verdict(received.current) { Issue.record("\(broken)") }
    }

    @Test("omits an audit checkpoint that arrives after later records were sent, because the next one covers it")
    func lateCheckpoint() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.append(1...5)
        let answer = try await fixture.audit.export(RecordRoutesFixture.request(["follow": "true"]))
        guard case .stream(let stream) = answer.http.body else {
            Issue.record("not streamed")
            return
        }
        let received = Shared([UInt8]())
        let task = Task { await stream.run(into: BodyWriter { piece in received.change { $0 += piece } }) }
        try await fixture.append(7...8)
        try await wait(for: "the records") { try sequences(received.current).last == 8 }
        try await fixture.seals.seal(sequence: 7)
        try await fixture.append(9...9)
        try await fixture.seals.seal()
        try await wait(for: "the last checkpoint") { fixture.verdict(received.current).intact?.sealed == 9 }
        task.cancel()
        #expect(await task.value)
    }

    @Test("returns the public key that verifies an export, with the HSM token's remembered head")
    func publicKey() async throws {
        let fixture = try await RecordRoutesFixture()
        try await fixture.thirty()
        let export = try await export(fixture)
        let answer = try JSONCoding.decode(
            AuditPublicKeyAnswer.self,
            from: try await fixture.audit.publicKey(RecordRoutesFixture.request()).bytes)
        #expect(answer.keys.map(\.keyId) == [fixture.seals.publicKey.keyId.hex])
        let pem = try #require(answer.keys.first).publicKey
        let key = try #require(CheckpointKey(pem: pem))
        let remembered = try #require(answer.head)
        let head = try #require(SignedCheckpoint(line: Array(remembered.utf8)))
        var verifier = ChainVerifier(keys: CheckpointKeys([key]), heads: [head])
        verifier.consume(export[...])
        #expect(verifier.verdict().intact?.sealed == head.checkpoint.sequence)
        #expect(try await fixture.newest.event == "audit_public_key")
    }

    @Test("distinguishes an HSM token that remembers nothing yet from one that does not answer")
    func headUnknown() async throws {
        let fixture = try await RecordRoutesFixture()
        let answer = try JSONCoding.decode(
            AuditPublicKeyAnswer.self,
            from: try await fixture.audit.publicKey(RecordRoutesFixture.request()).bytes)
        #expect(answer.head == nil)
        fixture.seals.refuse(Refusal(.hsmUnavailable, "The token is away."))
        let error = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.publicKey(RecordRoutesFixture.request())
        }
        #expect(error?.code == .hsmUnavailable)
    }
}

extension SoftwareSeals {
    /// Inserts a late audit checkpoint, which seals only the records up to `sequence`.
    func seal(sequence: Int) async throws {
        let page = try await trail.records(AuditFilter(), order: .oldestFirst, after: sequence - 1, limit: 1)
        let record = try #require(page.records.first)
        let head = try #require(
            ChainHead(node: try await trail.head().node, sequence: sequence, hash: record.hash))
        try await insert(checkpointOf: head)
    }
}
