import DaemonAPI
import NIOCore
import NIOHTTP1
import NIOSSL
import OutgoingConnections
import PortalRequests

/// Makes requests to Apple's App Store Connect API: each once, on its own connection, over verified TLS to Apple's
/// host. No redirect is followed, and no link in an answer.
struct AppStoreConnect: Sendable {
    /// The size limit of an answer's body. A list of 200 certificates has about 800 KiB.
    private static let maximumBodyBytes = 1 << 20

    private let destination: HTTPDestination

    /// - Throws: NIOSSL's errors if the roots cannot be used.
    init(_ settings: AppStoreConnectSettings, names: HostNames = .shared) throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if !settings.trust.isEmpty { tls.trustRoots = .certificates(settings.trust) }
        let context = try NIOSSLContext(configuration: tls)
        let place: HTTPDestination.Place
        if let server = settings.testServer {
            place = .address(server)
        } else if let proxy = settings.proxy {
            place = .host(proxy.host, port: proxy.port)
        } else {
            place = .host(PortalRequest.host, port: 443)
        }
        var destination = HTTPDestination(place, maximumBodyBytes: Self.maximumBodyBytes)
        destination.names = names
        if settings.testServer == nil, settings.proxy != nil {
            destination.prepare = { ProxyTunnel.made(to: PortalRequest.host, on: $0) }
        }
        destination.tls = { [try NIOSSLClientHandler(context: context, serverHostname: PortalRequest.host)] }
        self.destination = destination
    }

    /// Makes a request.
    ///
    /// - Parameter token: the JSON Web Token that permits the request.
    /// - Returns: the report of the answer.
    func send(
        _ request: PortalRequest, token: String, before deadline: ContinuousClock.Instant
    ) async throws(HTTPFault) -> PortalReport {
        var headers: HTTPHeaders = [
            "Host": PortalRequest.host, "Authorization": "Bearer \(token)", "Accept": "application/json",
            "User-Agent": "paytoken-outbound", "Connection": "close",
        ]
        let body = request.body.map(ByteBuffer.init(string:))
        if body != nil { headers.add(name: "Content-Type", value: "application/json") }
        let answer = try await destination.send(
            HTTPRequest(HTTPMethod(rawValue: request.kind.method.rawValue), request.target, headers, body: body),
            before: deadline)
        return PortalAnswerReader.report(
            of: request, status: answer.status, body: answer.isFramed ? answer.bytes : [],
            rateLimit: answer.head.headers.first(name: "X-Rate-Limit"))
    }
}
