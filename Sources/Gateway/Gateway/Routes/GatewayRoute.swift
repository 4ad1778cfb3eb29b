import AccessControl
import DaemonAPI
import HTTPListener
import ServerProgram
import Telemetry

/// One method on one path of the merchant endpoints, with the operation that a client needs for it and the function
/// that answers.
///
/// To add one: a row where `ServingGateway` puts the routes together, a method in a folder of its subject that reads
/// the body and writes the answer, and its description in openapi.json.
typealias GatewayRoute = Route<GatewayRouteAccess, GatewayRequest, GatewayRefusal>

struct GatewayRouteAccess: Sendable {
    let operation: ClientOperation
    /// The time from the request's last byte to its answer; nil means `limits.request_timeout`.
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

/// One method on one path of the admin socket, with the role that a peer needs for it; nil permits every peer that can
/// open the socket.
typealias AdminRoute = Route<AdminRole?, AdminRequest, GatewayRefusal>

/// A request as its route receives it. The client is known by then, and has the route's operation.
struct GatewayRequest: Sendable {
    /// The client. The route asks it for its merchants and domains: ``GatewayClient/allows(merchant:)``,
    /// ``GatewayClient/allows(domain:)``.
    let client: GatewayClient
    /// The segments of the path at the route's names in braces, in its order.
    let pathArguments: [String]
    /// The body; at most the route's `bodyLimit` bytes.
    let body: [UInt8]
    /// The trace for requests to others on behalf of this request.
    let trace: TraceContext
}

extension EndpointAnswer {
    /// Returns a JSON answer that must not be stored.
    static func json(_ value: some Encodable, status: Int = 200) throws(GatewayRefusal) -> EndpointAnswer {
        do {
            return bytes(try JSONCoding.encode(value), contentType: "application/json", status: status)
        } catch {
            throw .defect
        }
    }

    /// Returns an answer with these bytes that must not be stored.
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
    /// The account that sent the request, as the kernel fixed it.
    let peer: PeerCredentials
    /// True if a rule of `admin.access` matches the peer, which then also has the route's role if the route needs one.
    let isMatched: Bool
    /// The segments of the path at the route's names in braces, in its order.
    let pathArguments: [String]
    let body: [UInt8]
    let trace: TraceContext
}
