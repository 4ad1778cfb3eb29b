import AccessControl
import DaemonAPI
import HTTPListener
import ServerProgram
import Telemetry

/// One method on one path of the merchant endpoints, with the operation that a client needs for it and the handler.
///
/// To add one, add a row where `ServingGateway` assembles the routes, a method in the folder of its subject that reads
/// the body and writes the response, and its description in openapi.json.
typealias GatewayRoute = Route<GatewayRouteAccess, GatewayRequest, GatewayRefusal>

struct GatewayRouteAccess: Sendable {
    let operation: ClientOperation
    /// The time limit from the request's last byte to its response; nil for `limits.request_timeout`.
    let timeLimit: Duration?
}

extension GatewayRoute {
    convenience init(
        _ method: String, _ path: String, operation: ClientOperation, form: DocumentForm = .json, bodyLimit: Int = 0,
        timeLimit: Duration? = nil,
        respond: @escaping @Sendable (GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer
    ) {
        self.init(
            method, path, access: GatewayRouteAccess(operation: operation, timeLimit: timeLimit), form: form,
            bodyLimit: bodyLimit, respond: respond)
    }
}

/// One method on one path of the admin socket, with the role that a peer needs for it; nil to permit every peer that
/// can open the socket.
typealias AdminRoute = Route<AdminRole?, AdminRequest, GatewayRefusal>

/// A request as its route receives it. The client has been identified, and may use the route's operation.
struct GatewayRequest: Sendable {
    /// The client. The route must check merchants and domains with ``GatewayClient/allows(merchant:)``,
    /// ``GatewayClient/allows(domain:)``.
    let client: GatewayClient
    /// The path segments that match the route's names in braces, in order.
    let pathArguments: [String]
    /// The body; at most the route's `bodyLimit` bytes.
    let body: [UInt8]
    /// The trace to continue in requests that are made on behalf of this request.
    let trace: TraceContext
}

extension EndpointAnswer {
    /// Returns a JSON response that must not be cached.
    static func json(_ value: some Encodable, status: Int = 200) throws(GatewayRefusal) -> EndpointAnswer {
        do {
            return bytes(try JSONCoding.encode(value), contentType: "application/json", status: status)
        } catch {
            throw .defect
        }
    }

    /// Returns a response with these bytes that must not be cached.
    static func bytes(_ bytes: [UInt8], contentType: String, status: Int = 200) -> EndpointAnswer {
        EndpointAnswer(
            http: HTTPAnswer(
                status: status,
                headers: [
                    .init(name: "Content-Type", value: contentType), .init(name: "Cache-Control", value: "no-store"),
                ], body: bytes))
    }
}

/// A request as a route of the admin socket receives it.
struct AdminRequest: Sendable {
    /// The account that sent the request, as recorded by the kernel.
    let peer: PeerCredentials
    /// True if a rule of `admin.access` matches the peer, which then also has the route's role if the route needs one.
    let isMatched: Bool
    /// The path segments that match the route's names in braces, in order.
    let pathArguments: [String]
    let body: [UInt8]
    let trace: TraceContext
}
