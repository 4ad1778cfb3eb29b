/// A route's path: `/payments/apple-pay/{transactionId}`, of which the segments in braces stand for any one segment.
struct RoutePath: Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// As it is written; the label in metrics and logs, which so have one for each route and none for each payment.
    let text: String
    private let segments: [Substring]
    var description: String { text }

    init(stringLiteral text: String) {
        self.text = text
        segments = text.split(separator: "/", omittingEmptySubsequences: false)
    }

    /// The segments that stand for something, by their names; nil where the path is another one.
    func match(_ path: String) -> [String: String]? {
        let given = path.split(separator: "/", omittingEmptySubsequences: false)
        guard given.count == segments.count else { return nil }
        var values: [String: String] = [:]
        for (segment, value) in zip(segments, given) {
            if segment.hasPrefix("{"), segment.hasSuffix("}") {
                guard !value.isEmpty else { return nil }
                values[String(segment.dropFirst().dropLast())] = String(value)
            } else if segment != value {
                return nil
            }
        }
        return values
    }
}
