import AuditChain
import TestSupport
import Testing
import TokenForge

@testable import Telemetry
@testable import UsageRecording

/// The header `traceparent` (W3C Trace Context, Recommendation of 2021-11-23, §3.2). The first example (§3.2.3) and the
/// rules for other versions (§3.2.4) come from the Recommendation.
@Suite struct CallersTraceTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let parent = "00f067aa0ba902b7"
    private static let header = "00-\(trace)-\(parent)-01"

    @Test(
        "reads the trace and the caller's span from a well-formed header",
        arguments: [
            header, "00-\(trace)-\(parent)-00", "cc-\(trace)-\(parent)-01",
            "cc-\(trace)-\(parent)-01-what-the-future-brings",
        ])
    func wellFormed(text: String) throws {
        let caller = try #require(CallersTrace(traceparent: [text]))
        #expect(caller.traceIdentifier == Self.trace && caller.parentIdentifier == Self.parent)
        let own = TraceContext(traceparent: [text])
        #expect(own.traceIdentifier == Self.trace && own.parentIdentifier == Self.parent)
        #expect(
            own.spanIdentifier != Self.parent && own.traceparent.hasPrefix("00-\(Self.trace)-\(own.spanIdentifier)-"))
    }

    @Test(
        "ignores any other header, and begins a trace without a parent",
        arguments: [
            "", "00", "00-\(trace)-\(parent)", "00-\(trace)-\(parent)-01-more", "00-\(trace)-\(parent)-1",
            "0-\(trace)-\(parent)-01",
            "ff-\(trace)-\(parent)-01", "00-\(trace.uppercased())-\(parent)-01",
            "00-\(trace)-\(parent.uppercased())-01",
            "00-\(String(repeating: "0", count: 32))-\(parent)-01",
            "00-\(trace)-\(String(repeating: "0", count: 16))-01",
            "00-\(trace.dropLast())-\(parent)-01", "00-\(trace)-\(parent)0-01", "00-\(trace)-\(parent)-0g",
            " \(header)",
            "00_\(trace)_\(parent)_01", "cc-\(trace)-\(parent)-01.what", "cc-" + String(repeating: "1", count: 600),
        ])
    func malformedHeader(text: String) {
        #expect(CallersTrace(traceparent: [text]) == nil)
        let own = TraceContext(traceparent: [text])
        #expect(own.traceIdentifier != Self.trace && own.parentIdentifier == nil)
    }

    @Test("ignores an absent header, and two of them")
    func oneHeaderOnly() {
        #expect(CallersTrace(traceparent: []) == nil)
        #expect(CallersTrace(traceparent: [Self.header, Self.header]) == nil)
    }

    @Test("adds trace and span to a release's record and log line")
    func traceOfRelease() async throws {
        let fixture = try await PaymentRoutesFixture()
        let body = try fixture.mint().decryptBody(reference: "r")
        #expect(try await fixture.post("/v1/decrypt", body, traceparent: [Self.header]).status == 200)
        try await expectTraced(fixture, event: "decrypt", outcome: "ok")
    }

    @Test("adds trace and span to a refusal's record and log line")
    func traceOfRefusal() async throws {
        let fixture = try await PaymentRoutesFixture()
        let answer = try await fixture.post("/v1/verify", Array("{}".utf8), traceparent: [Self.header])
        #expect(answer.status == 400)
        try await expectTraced(fixture, event: "verify", outcome: "malformed_request")
    }

    private func expectTraced(_ fixture: PaymentRoutesFixture, event: String, outcome: String) async throws {
        let entry = try #require(try await fixture.record.entries.last)
        #expect(entry.event == event && entry.outcome == outcome)
        #expect(entry.details["traceId"]?.stringValue == Self.trace)
        #expect(entry.details["parentId"]?.stringValue == Self.parent)
        let log = String(decoding: try fixture.logged, as: UTF8.self)
        #expect(
            log.contains("\"trace.id\":\"\(Self.trace)\"") && log.contains("\"parent.id\":\"\(Self.parent)\""), "\(log)"
        )
        await fixture.record.check.run()
        #expect(fixture.record.check.finding?.fault == nil)
    }

    @Test(
        "decrypts despite a malformed header, and repeats it nowhere",
        arguments: [
            ["00-4111111111111111-\(parent)-01"], [header, header],
        ])
    func decryptsDespiteMalformedHeader(values: [String]) async throws {
        let fixture = try await PaymentRoutesFixture()
        let body = try fixture.mint().decryptBody(reference: "r")
        #expect(try await fixture.post("/v1/decrypt", body, traceparent: values).status == 200)
        let entry = try #require(try await fixture.record.entries.last)
        #expect(entry.event == "decrypt" && entry.outcome == "ok")
        #expect(entry.details["traceId"] == nil && entry.details["parentId"] == nil)
        let log = String(decoding: try fixture.logged, as: UTF8.self)
        #expect(!log.contains("trace.id") && !log.contains("4111111111111111") && !log.contains(Self.trace))
    }
}
