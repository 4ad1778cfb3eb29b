import AccessControl
import DaemonAPI
import HTTPListener
import ServerProgram
import Telemetry

/// One method on one path of the merchant endpoints: the operation that a client needs for it, and what answers.
///
/// To add one: a row where `ServingGateway` puts the routes together, a method in a folder of its subject that reads the
/// body and writes the answer, and its description in openapi.json.
typealias GatewayRoute = Route<GatewayRouteAccess, GatewayRequest, GatewayRefusal>

struct GatewayRouteAccess: Sendable {
    let operation: ClientOperation
    /// From the request's last byte to its answer; nil: `limits.request_timeout`.
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

/// One method on one path of the admin socket, and the role that a peer needs for it; nil for every peer that can open the socket.
typealias AdminRoute = Route<AdminRole?, AdminRequest, GatewayRefusal>

/// What a route gets to see. By then the client is known, and has the route's operation.
struct GatewayRequest: Sendable {
    /// Whose merchants and domains the route asks: ``GatewayClient/allows(merchant:)``, ``GatewayClient/allows(domain:)``.
    let client: GatewayClient
    /// The segments of the path where the route's has a name in braces, in its order.
    let pathArguments: [String]
    /// At most the route's `bodyLimit` bytes.
    let body: [UInt8]
    /// For what is asked of others on behalf of this request.
    let trace: TraceContext
}

extension EndpointAnswer {
    /// A JSON answer, which nobody keeps.
    static func json(_ value: some Encodable, status: Int = 200) throws(GatewayRefusal) -> EndpointAnswer {
        do {
            return bytes(try JSONCoding.encode(value), contentType: "application/json", status: status)
        } catch {
            throw .defect
        }
    }

    /// Bytes as they are, which nobody keeps.
    static func bytes(_ bytes: [UInt8], contentType: String, status: Int = 200) -> EndpointAnswer {
        EndpointAnswer(
            http: HTTPAnswer(
                status: status,
                headers: [
                    .init(name: "Content-Type", value: contentType), .init(name: "Cache-Control", value: "no-store"),
                ], body: bytes))
    }
}

/// What a route of the admin socket gets to see.
struct AdminRequest: Sendable {
    /// The account that asks, as the kernel fixed it.
    let peer: PeerCredentials
    /// Returns true if a rule of `admin.access` matches it. It has the route's role then, if the route needs one.
    let isMatched: Bool
    /// The segments of the path where the route's has a name in braces, in its order.
    let pathArguments: [String]
    let body: [UInt8]
    let trace: TraceContext
}
