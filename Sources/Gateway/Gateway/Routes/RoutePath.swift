import Encodings

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
                guard !value.isEmpty, let decoded = PercentEncoding.decoded(value) else { return nil }
                values[String(segment.dropFirst().dropLast())] = decoded
            } else if segment != value {
                return nil
            }
        }
        return values
    }

    /// The routes of a path, with the segments that stand for something. A route without braces goes before those with some.
    static func routes<Route>(
        _ routes: [Route], at path: String, by routePath: KeyPath<Route, RoutePath>
    ) -> [(route: Route, parameters: [String: String])] {
        let matching = routes.compactMap { route in
            route[keyPath: routePath].match(path).map { (route: route, parameters: $0) }
        }
        let literal = matching.filter { $0.parameters.isEmpty }
        return literal.isEmpty ? matching : literal
    }
}
