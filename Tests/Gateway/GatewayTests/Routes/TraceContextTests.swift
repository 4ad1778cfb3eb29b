import Telemetry
import Testing

@testable import Gateway

@Suite("W3C trace context")
struct TraceContextTests {
    private static let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let parent = "00f067aa0ba902b7"

    @Test("continues a trace with its own span")
    func continues() {
        let context = TraceContext(traceparent: ["00-\(Self.trace)-\(Self.parent)-01"])
        #expect(context.traceIdentifier == Self.trace)
        #expect(context.spanIdentifier != Self.parent)
        #expect(context.traceparent == "00-\(Self.trace)-\(context.spanIdentifier)-01")
    }

    @Test("accepts more after another hyphen in a later version")
    func laterVersion() {
        let context = TraceContext(traceparent: ["cc-\(Self.trace)-\(Self.parent)-01-what-the-future-holds"])
        #expect(context.traceIdentifier == Self.trace)
        #expect(context.traceparent.hasPrefix("00-"))
    }

    @Test(
        "begins its own trace for a malformed header",
        arguments: [
            [], [""], ["00-\(trace)-\(parent)"], ["00-\(trace)-\(parent)-01-more"], ["ff-\(trace)-\(parent)-01"],
            ["00-\(trace.uppercased())-\(parent)-01"], ["00-00000000000000000000000000000000-\(parent)-01"],
            ["00-\(trace)-0000000000000000-01"], ["00-\(trace)-\(parent)-0g"], ["00 \(trace) \(parent) 01"],
            ["00-\(trace)-\(parent)-01", "00-\(trace)-\(parent)-01"], ["00-\(trace)-\(parent)-01\u{1}"],
            ["cc-\(trace)-\(parent)-01" + String(repeating: "-x", count: 400)],
        ])
    func restarts(values: [String]) {
        let context = TraceContext(traceparent: values)
        #expect(context.traceIdentifier != Self.trace)
        #expect(context.traceIdentifier.utf8.count == 32 && context.spanIdentifier.utf8.count == 16)
        #expect(context.flags == "00")
    }

    @Test("never makes an identifier of zeros, even at random")
    func nonZero() {
        let context = TraceContext(traceparent: [], random: { [UInt8](repeating: 0, count: 24) })
        #expect(context.traceparent == "00-00000000000000000000000000000001-0000000000000001-00")
    }
}
