import AuditChain
import DaemonAPI
import Refusals
import StrictJSON
import Testing

@testable import Daemon

@Suite("POST /v1/audit/reports")
struct ReportRecordTests {
    private static let digest = String(repeating: "ab", count: 32)

    private static func body(
        digest: String = digest, since: String = "2026-01-01T00:00:00Z", until: String = "2026-02-01T00:00:00.250Z",
        nodes: [(String, Int)] = [("node-1", 30), ("node-2", 7)]
    ) -> String {
        let nodes = nodes.map { #"{"node":"\#($0.0)","lastSequence":\#($0.1)}"# }.joined(separator: ",")
        return #"{"pageSha256":"\#(digest)","since":"\#(since)","until":"\#(until)","nodes":[\#(nodes)]}"#
    }

    @Test("records the page's digest, period and last sequences with the person, and answers with the record")
    func recorded() async throws {
        let fixture = try await RecordRoutesFixture()
        let answer = try await fixture.audit.report(RecordRoutesFixture.request(body: Self.body()))
        let entry = try await fixture.newest
        #expect(try await answer.text == #"{"audit":{"node":"node-1","sequence":1}}"#)
        #expect(entry.event == "audit_report" && entry.caller?.uid == 1007)
        #expect(entry.details["pageSha256"]?.stringValue == Self.digest)
        #expect(entry.details["since"]?.stringValue == "2026-01-01T00:00:00.000Z")
        #expect(entry.details["until"]?.stringValue == "2026-02-01T00:00:00.250Z")
        let last = entry.details["lastSequences"]?.objectValue
        #expect(last?["node-1"]?.numberValue?.int == 30 && last?["node-2"]?.numberValue?.int == 7)
    }

    @Test("records 64 nodes in one line")
    func most() async throws {
        let fixture = try await RecordRoutesFixture()
        let nodes = (1...64).map { (String(repeating: "n", count: 61) + String(100 + $0), 999_999_999) }
        _ = try await fixture.audit.report(RecordRoutesFixture.request(body: Self.body(nodes: nodes)))
        #expect(try await fixture.newest.details["lastSequences"]?.objectValue?.members.count == 64)
    }

    @Test(
        "refuses statements that no page can have, and records nothing",
        arguments: [
            body(digest: "AB"), body(since: "2026-02-01"), body(until: "2026-01-01T00:00:00Z"), body(nodes: []),
            body(nodes: [("node-1", 1), ("node-1", 2)]), body(nodes: [("no de", 1)]), body(nodes: [("node-1", -1)]),
            body(nodes: (1...65).map { ("node-\($0)", 1) }), "{}",
        ])
    func refused(body: String) async throws {
        let fixture = try await RecordRoutesFixture()
        let refusal = await #expect(throws: Refusal.self) {
            _ = try await fixture.audit.report(RecordRoutesFixture.request(body: body))
        }
        #expect(refusal?.code == .malformedRequest)
        #expect(try await fixture.ledger.head().sequence == 0)
    }
}
