import AccessControl
import DaemonAPI
import HTTPListener
import Logging
import Telemetry

/// One method on one path of the merchant endpoints: the operation that a client needs for it, and what answers.
///
/// To add one: a row where `GatewayAssembly` puts the routes together, a method in a folder of its subject that reads the
/// body and writes the answer, and its description in openapi.json.
struct GatewayRoute: Sendable {
    let method: String
    let path: RoutePath
    let operation: ClientOperation
    /// What the body is written in, and with it the refusals.
    let form: DocumentForm
    /// How many bytes of body are read; the body must then be of ``form``. 0 where there is none to read.
    let bodyLimit: Int
    /// From the request's last byte to its answer; nil: `limits.request_timeout`.
    let timeLimit: Duration?
    let respond: @Sendable (GatewayRequest) async throws(GatewayRefusal) -> GatewayAnswer

    init(
        _ method: String, _ path: RoutePath, operation: ClientOperation, form: DocumentForm = .json,
        bodyLimit: Int = 0, timeLimit: Duration? = nil,
        respond: @escaping @Sendable (GatewayRequest) async throws(GatewayRefusal) -> GatewayAnswer
    ) {
        self.method = method
        self.path = path
        self.operation = operation
        self.form = form
        self.bodyLimit = bodyLimit
        self.timeLimit = timeLimit
        self.respond = respond
    }
}

/// What requests and refusals are written in.
enum DocumentForm: Sendable {
    case json
    /// Radial's.
    case xml

    /// Media types of a body.
    var mediaTypes: [String] {
        switch self {
        case .json: ["application/json"]
        case .xml: ["text/xml", "application/xml"]
        }
    }

    var name: String {
        switch self {
        case .json: "JSON"
        case .xml: "XML"
        }
    }
}

/// What a route gets to see. By then the client is known, and has the route's operation.
struct GatewayRequest: Sendable {
    /// Whose merchants and domains the route asks: ``GatewayClient/allows(merchant:)``, ``GatewayClient/allows(domain:)``.
    let client: GatewayClient
    /// What stands in the path where the route's has a name in braces.
    let parameters: [String: String]
    /// At most the route's `bodyLimit` bytes.
    let body: [UInt8]
    /// For what is asked of others on behalf of this request.
    let trace: TraceContext
}

/// What a route answers, and what the log and the metrics say of it.
struct GatewayAnswer: Sendable {
    let http: HTTPAnswer
    /// The `outcome` label: `ok`, or a refusal's code.
    var outcome = "ok"
    /// For the log. Never anything of a body.
    var metadata: Logger.Metadata = [:]
}

extension GatewayAnswer {
    /// A JSON answer, which nobody keeps.
    static func json(_ value: some Encodable, status: Int = 200) throws(GatewayRefusal) -> GatewayAnswer {
        do {
            return bytes(try JSONCoding.encode(value), contentType: "application/json", status: status)
        } catch {
            throw .defect
        }
    }

    /// Bytes as they are, which nobody keeps.
    static func bytes(_ bytes: [UInt8], contentType: String, status: Int = 200) -> GatewayAnswer {
        GatewayAnswer(
            http: HTTPAnswer(
                status: status,
                headers: [
                    .init(name: "Content-Type", value: contentType), .init(name: "Cache-Control", value: "no-store"),
                ], body: bytes))
    }
}

/// One method on one path of the admin socket, and the role that a peer needs for it.
struct AdminRoute: Sendable {
    let method: String
    let path: RoutePath
    /// nil: for every peer that can open the socket.
    let role: AdminRole?
    let bodyLimit: Int
    let respond: @Sendable (AdminRequest) async throws(GatewayRefusal) -> GatewayAnswer

    init(
        _ method: String, _ path: RoutePath, role: AdminRole?, bodyLimit: Int = 0,
        respond: @escaping @Sendable (AdminRequest) async throws(GatewayRefusal) -> GatewayAnswer
    ) {
        self.method = method
        self.path = path
        self.role = role
        self.bodyLimit = bodyLimit
        self.respond = respond
    }
}

/// What a route of the admin socket gets to see.
struct AdminRequest: Sendable {
    /// The account that asks, as the kernel fixed it.
    let peer: PeerCredentials
    /// Returns true if a rule of `admin.access` matches it. It has the route's role then, if the route needs one.
    let isMatched: Bool
    /// What stands in the path where the route's has a name in braces.
    let parameters: [String: String]
    let body: [UInt8]
    let trace: TraceContext
}
