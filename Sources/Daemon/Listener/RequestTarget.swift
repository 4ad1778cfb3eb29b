/// A request target (RFC 9112 §3.2), split and percent-decoded.
struct RequestTarget: Sendable, Equatable {
    let path: String
    let query: [String: String]

    static let maximumBytes = 4096
    private static let maximumQueryMembers = 32

    /// Takes the origin form, the absolute form that proxies send, and the asterisk form.
    /// nil: too long, not percent-encoded UTF-8, control characters, or a query name twice.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        var target = text[...]
        if target == "*" {
            path = "*"
            query = [:]
            return
        }
        if target.lowercased().hasPrefix("http://") {
            let afterScheme = target.dropFirst("http://".count)
            target = afterScheme.firstIndex(of: "/").map { afterScheme[$0...] } ?? "/"
        }
        guard target.hasPrefix("/"), !target.contains("#") else { return nil }
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = PercentEncoding.decoded(parts[0]) else { return nil }
        self.path = path
        guard parts.count == 2, let query = Self.members(of: parts[1]) else {
            guard parts.count == 1 else { return nil }
            query = [:]
            return
        }
        self.query = query
    }

    private static func members(of text: Substring) -> [String: String]? {
        var members: [String: String] = [:]
        for member in text.split(separator: "&") {
            let parts = member.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard members.count < maximumQueryMembers, let name = PercentEncoding.decoded(parts[0], plusIsSpace: true),
                let value = parts.count == 2 ? PercentEncoding.decoded(parts[1], plusIsSpace: true) : "",
                members.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        return members
    }
}
