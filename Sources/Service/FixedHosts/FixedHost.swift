package import NIOCore
package import NIOSSL
package import OutgoingConnections

/// A host that no setting can change, and the way to it. TLS is verified for the host's name, whatever the way. No
/// redirect is followed.
package struct FixedHost: Sendable {
    /// The settings of the way. By default it is direct, and the system's roots are trusted.
    package struct Way: Sendable, Equatable {
        /// An HTTP proxy (CONNECT); nil to connect directly.
        package var proxy: HTTPProxy?
        /// The roots of the server's certificate; empty to trust the system's.
        package var trust: [NIOSSLCertificate] = []
        /// The address of a simulated host, for tests; nil for the host itself.
        package var testServer: SocketAddress?

        package init() {}

        /// Parses the address of a simulated host, `127.…:PORT` or `[::1]:PORT`; nil for any other text.
        package static func testServer(_ text: String) -> SocketAddress? {
            guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0
            else { return nil }
            let host = text[..<colon]
            guard host == "[::1]" || host.hasPrefix("127.") else { return nil }
            return try? SocketAddress(ipAddress: host == "[::1]" ? "::1" : String(host), port: Int(port))
        }

        /// Reads roots from a PEM file; nil if it has none.
        package static func roots(inFile path: String) -> [NIOSSLCertificate]? {
            (try? NIOSSLCertificate.fromPEMFile(path)).flatMap { $0.isEmpty ? nil : $0 }
        }
    }

    package let name: String
    private let destination: HTTPDestination

    /// - Parameter maximumBodyBytes: the size limit of an answer's body.
    /// - Throws: NIOSSL's errors if the roots cannot be used.
    package init(_ name: String, _ way: Way, maximumBodyBytes: Int, names: HostNames = .shared) throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if !way.trust.isEmpty { tls.trustRoots = .certificates(way.trust) }
        let context = try NIOSSLContext(configuration: tls)
        let place: HTTPDestination.Place
        if let server = way.testServer {
            place = .address(server)
        } else if let proxy = way.proxy {
            place = .host(proxy.host, port: proxy.port)
        } else {
            place = .host(name, port: 443)
        }
        var destination = HTTPDestination(place, maximumBodyBytes: maximumBodyBytes)
        destination.names = names
        if way.testServer == nil, way.proxy != nil {
            destination.prepare = { ProxyTunnel.made(to: name, on: $0) }
        }
        destination.tls = { [try NIOSSLClientHandler(context: context, serverHostname: name)] }
        (self.name, self.destination) = (name, destination)
    }

    /// Sends a request on a connection of its own, without repeating it.
    package func send(
        _ request: HTTPRequest, before deadline: ContinuousClock.Instant
    ) async throws(HTTPFault) -> HTTPResponse {
        try await destination.send(request, before: deadline)
    }
}
