import NIOCore
import NIOSSL
import OutgoingConnections
import TLSHandshake

/// Where merchant sessions are asked for, and by which way: the environment's exact host, never a name from a request.
struct AppleEndpoint: Sendable {
    /// Its name stands in SNI and in the request, and the server's certificate must be for it.
    let host: ApplePayGatewayHost
    /// Who may have issued the server's certificate; nil: the roots that the system trusts.
    let trustRoots: [NIOSSLCertificate]?
    let route: Route
    /// By which its name, or the proxy's, is resolved.
    var names = HostNames.shared

    /// How the host is reached.
    enum Route: Sendable, Equatable {
        /// By its name, port 443.
        case direct
        /// Through a proxy by CONNECT (RFC 9110 §9.3.6); TLS goes through it to Apple's host all the same.
        case proxy(SessionSettings.Proxy)
        /// Instead of Apple's host, for tests: a loopback address. The name stays Apple's, so the server there needs a
        /// certificate for it that ``trustRoots`` has issued.
        case testServer(SocketAddress)
    }

    /// - Throws: `NIOSSLError` where a file of `trust` cannot be read, or has no certificate.
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

    /// `POST` to it asks for a session.
    static let path = "/paymentservices/paymentSession"
}
