import Encodings

/// The trace that a request belongs to (W3C Trace Context, Recommendation of 2021-11-23, §3.2), so that logs of backend,
/// gateway and paytokend can be put together.
package struct TraceContext: Sendable, Equatable {
    /// 32 lower-case hexadecimal digits, not all zero.
    package let traceIdentifier: String
    /// This request's own span: 16 lower-case hexadecimal digits, not all zero.
    package let spanIdentifier: String
    /// Two hexadecimal digits, as the caller sent them; 00 for a trace that begins here.
    package let flags: String

    /// Goes on with the caller's trace, or begins one where there is none that could be gone on with.
    ///
    /// - Parameter values: of the header `traceparent`. Two of them, or one that is not well formed, are as none (§3.2.2.2): a
    ///   wrong trace must not cost a payment.
    package init(traceparent values: [String], random: () -> [UInt8] = TraceContext.randomBytes) {
        let fresh = random()
        spanIdentifier = Self.nonZero(Hexadecimal.encode(fresh[16..<24]))
        if let (trace, flags) = Self.parse(values) {
            (traceIdentifier, self.flags) = (trace, flags)
        } else {
            (traceIdentifier, flags) = (Self.nonZero(Hexadecimal.encode(fresh[..<16])), "00")
        }
    }

    /// The header for what is asked of others: this request's span is the parent.
    package var traceparent: String { "00-\(traceIdentifier)-\(spanIdentifier)-\(flags)" }

    /// The identifier of the caller's trace; nil where there is none that could be gone on with.
    package static func traceIdentifier(of values: [String]) -> String? { parse(values)?.trace }

    private static func parse(_ values: [String]) -> (trace: String, flags: String)? {
        values.count == 1 ? parse(values[0]) : nil
    }

    /// `version-trace-parent-flags`. A version above 00 may have more after another hyphen; ff is none.
    private static func parse(_ text: String) -> (trace: String, flags: String)? {
        guard (55...512).contains(text.utf8.count) else { return nil }
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 4, parts[0] != "ff", parts[0] != "00" || parts.count == 4,
            zip(parts, [2, 32, 16, 2]).allSatisfy({ $0.utf8.count == $1 && Hexadecimal.isLowerCase($0.utf8) }),
            parts[1].contains(where: { $0 != "0" }), parts[2].contains(where: { $0 != "0" })
        else { return nil }
        return (parts[1], parts[3])
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
