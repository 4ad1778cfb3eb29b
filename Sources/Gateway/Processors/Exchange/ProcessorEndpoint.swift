/// The address of a processor.
public struct ProcessorEndpoint: Sendable, Equatable {
    public enum Place: Sendable, Equatable {
        /// A host that is reached over TLS.
        case https(host: String, port: Int)
        /// One of this host's own addresses, without TLS.
        case loopback(host: String, port: Int)
        /// A Unix socket at an absolute path.
        case unix(path: String)
    }

    public let place: Place
    /// The path that precedes each request's own path, such as `/v1`, without a final slash; empty if there is none.
    public let basePath: String

    public init(place: Place, basePath: String = "") {
        self.place = place
        self.basePath = basePath
    }

    /// Parses `https://HOST[:PORT][/PATH]`, `http://` with 127.0.0.1, [::1] or localhost, or `unix:/PATH`. Returns nil
    /// for other text, and for a URL with a user, a query or a fragment.
    public init?(_ text: String) {
        guard text.utf8.count <= 512, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard path.hasPrefix("/"), path.utf8.count <= 107 else { return nil }
            self.init(place: .unix(path: path))
            return
        }
        let isTLS = text.hasPrefix("https://")
        guard isTLS || text.hasPrefix("http://") else { return nil }
        let rest = text.dropFirst(isTLS ? 8 : 7)
        guard !rest.contains(where: { "@?#\\".contains($0) }) else { return nil }
        let authority = rest.prefix { $0 != "/" }
        var path = String(rest.dropFirst(authority.count))
        while path.hasSuffix("/") { path.removeLast() }
        var (host, port) = (String(authority), isTLS ? 443 : 80)
        let afterBracket = authority.lastIndex(of: "]") ?? authority.startIndex
        if let colon = authority[afterBracket...].lastIndex(of: ":") {
            guard let number = Int(authority[authority.index(after: colon)...]), (1...65535).contains(number) else {
                return nil
            }
            (host, port) = (String(authority[..<colon]), number)
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        guard !host.isEmpty else { return nil }
        if isTLS {
            self.init(place: .https(host: host, port: port), basePath: path)
        } else {
            guard ["127.0.0.1", "::1", "localhost"].contains(host) else { return nil }
            self.init(place: .loopback(host: host, port: port), basePath: path)
        }
    }

    /// Returns true if the connection uses TLS.
    public var isEncrypted: Bool { if case .https = place { true } else { false } }

    /// The value of the Host header.
    var hostHeader: String {
        switch place {
        case .https(let host, let port): (host.contains(":") ? "[\(host)]" : host) + (port == 443 ? "" : ":\(port)")
        case .loopback(let host, let port): (host.contains(":") ? "[\(host)]" : host) + ":\(port)"
        case .unix: "localhost"
        }
    }
}
