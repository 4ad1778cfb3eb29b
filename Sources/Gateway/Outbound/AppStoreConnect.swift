import DaemonAPI
import FixedHosts
import NIOCore
import NIOHTTP1
import OutgoingConnections
import PortalRequests

/// Makes requests to Apple's App Store Connect API: each once, on its own connection, over verified TLS to Apple's
/// host. No redirect is followed, and no link in an answer.
struct AppStoreConnect: Sendable {
    /// The size limit of an answer's body. A list of 200 certificates has about 800 KiB.
    private static let maximumBodyBytes = 1 << 20

    private let host: FixedHost

    /// - Throws: NIOSSL's errors if the roots cannot be used.
    init(_ settings: AppStoreConnectSettings, names: HostNames = .shared) throws {
        host = try FixedHost(
            PortalRequest.host, settings.way, maximumBodyBytes: Self.maximumBodyBytes, names: names)
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
        let answer = try await host.send(
            HTTPRequest(HTTPMethod(rawValue: request.kind.method.rawValue), request.target, headers, body: body),
            before: deadline)
        return PortalAnswerReader.report(
            of: request, status: answer.status, body: answer.isFramed ? answer.bytes : [],
            rateLimit: answer.head.headers.first(name: "X-Rate-Limit"))
    }
}
