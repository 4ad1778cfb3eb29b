import Encodings
package import HTTPListener
package import Logging

/// One method on one path: the right that it needs, and its handler.
///
/// A class, since every request passes it on several times.
package final class Route<Access: Sendable, Request: Sendable, Refused: ServerRefusal>: Sendable {
    package let method: String
    /// A path whose segments are literal, except `{…}`, which matches any one segment. It is also the label in metrics and
    /// logs, so that there is one label for each route.
    package let path: String
    private let segments: [Substring]
    /// Returns true if the path has no `{…}`.
    let isLiteral: Bool
    /// The right that a caller needs, in the program's terms.
    package let access: Access
    package let form: DocumentForm
    /// The maximum size of the body, which must be in ``form``; 0 for a route without a body.
    package let bodyLimit: Int
    package let respond: @Sendable (Request) async throws(Refused) -> EndpointAnswer

    package init(
        _ method: String, _ path: String, access: Access, form: DocumentForm = .json, bodyLimit: Int = 0,
        respond: @escaping @Sendable (Request) async throws(Refused) -> EndpointAnswer
    ) {
        self.method = method
        self.path = path
        segments = path.split(separator: "/", omittingEmptySubsequences: false)
        isLiteral = !path.contains("{")
        self.access = access
        self.form = form
        self.bodyLimit = bodyLimit
        self.respond = respond
    }

    /// Returns the segments that matched `{…}`, decoded and in the path's order; nil if the path does not match.
    package func match(_ path: String) -> [String]? {
        if isLiteral { return path == self.path ? [] : nil }
        let found = path.split(separator: "/", omittingEmptySubsequences: false)
        guard segments.count == found.count else { return nil }
        var arguments: [String] = []
        for (wanted, segment) in zip(segments, found) {
            if wanted.hasPrefix("{") {
                guard !segment.isEmpty, let argument = PercentEncoding.decoded(segment) else { return nil }
                arguments.append(argument)
            } else if wanted != segment {
                return nil
            }
        }
        return arguments
    }
}

/// A route's answer, and its entry in the log and the metrics.
package struct EndpointAnswer: Sendable {
    package var http: HTTPAnswer
    /// The `outcome` label: `ok`, another word for a success, or a refusal's code.
    package var outcome: String
    /// Metadata for the log. It never contains any part of a body.
    package var metadata: Logger.Metadata

    package init(http: HTTPAnswer, outcome: String = "ok", metadata: Logger.Metadata = [:]) {
        self.http = http
        self.outcome = outcome
        self.metadata = metadata
    }
}
