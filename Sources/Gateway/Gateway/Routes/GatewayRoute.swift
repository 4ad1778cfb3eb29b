import AccessControl
import DaemonAPI
import HTTPListener
import ServerProgram
import Telemetry

/// One method on one path of the merchant endpoints, with the operation that a client needs for it and the handler.
///
/// To add a route, add it where `ServingGateway` assembles the routes. Write a method in the folder of its subject,
/// which reads the body and writes the response. Describe the route in openapi.json.
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

/// One method on one path of the admin socket, with the role that a peer needs. A route whose role is nil permits every
/// peer that can connect.
typealias AdminRoute = Route<AdminRole?, AdminRequest, GatewayRefusal>

/// A request as its route receives it. The client has been identified, and may use the route's operation.
struct GatewayRequest: Sendable {
    /// The client. The route must check merchants with ``GatewayClient/allows(merchant:of:)``, and domains with
    /// ``GatewayClient/allows(domain:)``.
    let client: GatewayClient
    /// The path segments that match the route's names in braces, in order.
    let pathArguments: [String]
    /// The body; at most the route's `bodyLimit` bytes.
    let body: [UInt8]
    /// The trace to continue in requests that are made on behalf of this request.
    let trace: TraceContext
    /// The request's connection; nil if the request did not arrive on one.
    var origin: RequestOrigin?

    /// Reads the body when it is the client's turn to compute on its connection's event loop, so that large bodies delay other
    /// clients by one of them only.
    func reading<Value, Failure: Error>(
        _ read: ([UInt8]) throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        let turn = await origin?.turn()
        defer { turn?.end() }
        return try read(body)
    }
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
    /// True if a rule of `admin.access` matches the peer. False is possible only if the route needs no role.
    let isMatched: Bool
    /// The path segments that match the route's names in braces, in order.
    let pathArguments: [String]
    let body: [UInt8]
    let trace: TraceContext
}
