import NIOCore
import NIOSSL
import OutgoingConnections
import TLSHandshake

/// The host that issues merchant sessions, and the route to it. The host is always that of the configured environment,
/// and never a name from a request.
struct AppleEndpoint: Sendable {
    /// Apple's host. Its name is sent in SNI and in the request, and the server's certificate must be for this name.
    let host: ApplePayGatewayHost
    /// The roots of the server's certificate; nil for the system's roots.
    let trustRoots: [NIOSSLCertificate]?
    let route: Route
    /// Resolves the name of Apple's host, or of the proxy.
    var names = HostNames.shared

    /// The route to the host.
    enum Route: Sendable, Equatable {
        /// Connects to the host's name, port 443.
        case direct
        /// Connects through a proxy by CONNECT (RFC 9110 §9.3.6); TLS still ends at Apple's host.
        case proxy(HTTPProxy)
        /// Connects to a loopback address instead, for tests. TLS still checks Apple's name, so the test server needs a
        /// certificate for that name, issued by one of the ``trustRoots``.
        case testServer(SocketAddress)
    }

    /// - Throws: `NIOSSLError` if a file of `trust` cannot be read, or contains no certificate.
    init(_ settings: SessionSettings) throws {
        host = settings.environment.host
        trustRoots =
            settings.trust.isEmpty ? nil : try settings.trust.flatMap { try NIOSSLCertificate.fromPEMFile($0) }
        if let server = settings.testServer {
            route = .testServer(try SocketAddress(ipAddress: server.ip, port: server.port))
        } else {
            route = settings.proxy.map { .proxy($0) } ?? .direct
        }
    }

    /// The path to which a session is requested with `POST`.
    static let path = "/paymentservices/paymentSession"
}
