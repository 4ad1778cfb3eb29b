public import NIOCore
public import NIOSSL
public import TLSHandshake

/// Where merchant sessions are asked for, and by which way: the environment's exact host, never a name from a request.
public struct AppleEndpoint: Sendable {
    /// Its name stands in SNI and in the request, and the server's certificate must be for it.
    public let host: ApplePayGatewayHost
    /// Who may have issued the server's certificate; nil: the roots that the system trusts.
    public let trustRoots: [NIOSSLCertificate]?
    public let route: Route

    /// How the host is reached.
    public enum Route: Sendable, Equatable {
        /// By its name, port 443.
        case direct
        /// Through a proxy by CONNECT (RFC 9110 §9.3.6); TLS goes through it to Apple's host all the same.
        case proxy(HTTPProxy)
        /// Instead of Apple's host, for tests: a loopback address. The name stays Apple's, so the server there needs a
        /// certificate for it that ``trustRoots`` has issued.
        case testServer(LoopbackAddress)
    }

    /// - Throws: `CocoaError` or `NIOSSLError` where a file of `trust` cannot be read or holds no certificate.
    ///
    /// - Parameter trust: paths of PEM files; empty: the system's roots.
    public init(host: ApplePayGatewayHost, trust: [String] = [], route: Route = .direct) throws {
        self.host = host
        self.route = route
        trustRoots = trust.isEmpty ? nil : try trust.flatMap { try NIOSSLCertificate.fromPEMFile($0) }
    }

    /// `POST` to it asks for a session.
    static let path = "/paymentservices/paymentSession"
}

/// `http://HOST:PORT`, a proxy that tunnels.
public struct HTTPProxy: Sendable, Equatable {
    public let host: String
    public let port: Int

    /// Nil for anything but this form: no user, no path, no other scheme.
    public init?(_ url: String) {
        guard url.hasPrefix("http://") else { return nil }
        let authority = url.dropFirst("http://".count)
        guard let colon = authority.lastIndex(of: ":"),
            let port = TCPPort.number(authority[authority.index(after: colon)...])
        else { return nil }
        var host = authority[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.utf8.allSatisfy({ $0 == UInt8(ascii: ":") || DomainName.isLetterOrDigit($0) }) else {
                return nil
            }
        } else {
            let marks = [UInt8(ascii: "."), UInt8(ascii: "-")]
            guard host.utf8.allSatisfy({ marks.contains($0) || DomainName.isLetterOrDigit($0) }) else { return nil }
        }
        guard !host.isEmpty else { return nil }
        self.host = String(host)
        self.port = port
    }
}

/// `127.0.0.1:PORT` or `[::1]:PORT`.
public struct LoopbackAddress: Sendable, Equatable {
    public let address: SocketAddress

    /// Nil for every other address, and for names.
    public init?(_ text: String) {
        for (prefix, host) in [("127.0.0.1:", "127.0.0.1"), ("[::1]:", "::1")] where text.hasPrefix(prefix) {
            guard let port = TCPPort.number(text.dropFirst(prefix.count)),
                let address = try? SocketAddress(ipAddress: host, port: port)
            else { return nil }
            self.address = address
            return
        }
        return nil
    }
}

private enum TCPPort {
    /// 1 to 65535, in digits alone.
    static func number(_ text: Substring) -> Int? {
        guard (1...5).contains(text.utf8.count),
            text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let port = Int(text),
            (1...65535).contains(port)
        else { return nil }
        return port
    }
}
