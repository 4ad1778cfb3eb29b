import Encodings

/// The trace of a request (W3C Trace Context, Recommendation of 2021-11-23, §3.2), with which the logs of backend,
/// gateway and paytokend can be correlated.
package struct TraceContext: Sendable, Equatable {
    /// 32 lower-case hexadecimal digits, not all zero.
    package let traceIdentifier: String
    /// The span of this request: 16 lower-case hexadecimal digits, not all zero.
    package let spanIdentifier: String
    /// The caller's span, the parent of this request; nil for a trace that begins here.
    package let parentIdentifier: String?
    /// Two hexadecimal digits, as sent by the caller; 00 for a trace that begins here.
    package let flags: String

    /// Continues the caller's trace, or begins one if the caller sent no usable trace.
    ///
    /// - Parameter values: the values of the header `traceparent`. Two values, or a malformed one, count as none
    ///   (§3.2.2.2): an invalid trace must not make a payment fail.
    package init(traceparent values: [String], random: () -> [UInt8] = TraceContext.randomBytes) {
        let fresh = random()
        spanIdentifier = Self.nonZero(Hexadecimal.encode(fresh[16..<24]))
        if let (caller, flags) = Self.parse(values) {
            (traceIdentifier, parentIdentifier, self.flags) = (caller.traceIdentifier, caller.parentIdentifier, flags)
        } else {
            (traceIdentifier, parentIdentifier, flags) = (Self.nonZero(Hexadecimal.encode(fresh[..<16])), nil, "00")
        }
    }

    /// The header for requests to other programs: this request's span is the parent.
    package var traceparent: String { "00-\(traceIdentifier)-\(spanIdentifier)-\(flags)" }

    private static func parse(_ values: [String]) -> (caller: CallersTrace, flags: String)? {
        values.count == 1 ? parse(values[0]) : nil
    }

    /// Parses `version-trace-parent-flags`. A version above 00 may have further fields after another hyphen; ff is not
    /// a valid version.
    fileprivate static func parse(_ text: String) -> (caller: CallersTrace, flags: String)? {
        guard (55...512).contains(text.utf8.count) else { return nil }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 4, parts[0] != "ff", parts[0] != "00" || parts.count == 4,
            zip(parts, [2, 32, 16, 2]).allSatisfy({ $0.utf8.count == $1 && Hexadecimal.isLowerCase($0.utf8) }),
            parts[1].contains(where: { $0 != "0" }), parts[2].contains(where: { $0 != "0" })
        else { return nil }
        return (CallersTrace(traceIdentifier: parts[1], parentIdentifier: parts[2]), parts[3])
    }

    private static func nonZero(_ digits: String) -> String {
        digits.contains { $0 != "0" } ? digits : String(digits.dropLast()) + "1"
    }

    package static func randomBytes() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<3).flatMap { _ in withBytes(of: generator.next()) }
    }

    private static func withBytes(of word: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
    }
}

/// The trace in a caller's header, for logs and records.
package struct CallersTrace: Sendable, Equatable {
    /// 32 lower-case hexadecimal digits, not all zero.
    package let traceIdentifier: String
    /// The caller's span: 16 lower-case hexadecimal digits, not all zero.
    package let parentIdentifier: String

    fileprivate init(traceIdentifier: String, parentIdentifier: String) {
        self.traceIdentifier = traceIdentifier
        self.parentIdentifier = parentIdentifier
    }

    /// - Parameter values: the values of the header `traceparent`. Nil for none, for two, and for a malformed one.
    package init?(traceparent values: [String]) {
        guard values.count == 1, let (caller, _) = TraceContext.parse(values[0]) else { return nil }
        self = caller
    }
}
