import Logging
import Refusals

/// One method on one path: who may call it, and what answers.
struct Endpoint: Sendable {
    let method: String
    /// A path whose segments stand for themselves, but `{…}` for any one segment. Also the label in metrics.
    let path: String
    let sockets: Set<SocketKind>
    /// The role that the caller needs; nil where any peer of the socket is served.
    let role: Role?
    /// How many bytes of body are read; 0 where there is none to read.
    let bodyLimit: Int
    let respond: @Sendable (EndpointRequest) async throws(Refusal) -> EndpointAnswer

    init(
        _ method: String, _ path: String, on sockets: Set<SocketKind>, role: Role?, bodyLimit: Int = 0,
        respond: @escaping @Sendable (EndpointRequest) async throws(Refusal) -> EndpointAnswer
    ) {
        self.method = method
        self.path = path
        self.sockets = sockets
        self.role = role
        self.bodyLimit = bodyLimit
        self.respond = respond
    }

    /// The segments that `{…}` stood for, or nil when the path is another one.
    func match(_ segments: [Substring]) -> [String]? {
        let pattern = path.split(separator: "/", omittingEmptySubsequences: false)
        guard pattern.count == segments.count else { return nil }
        var found: [String] = []
        for (wanted, segment) in zip(pattern, segments) {
            if wanted.hasPrefix("{") {
                guard !segment.isEmpty else { return nil }
                found.append(String(segment))
            } else if wanted != segment {
                return nil
            }
        }
        return found
    }
}

/// What an endpoint gets to see: that the peer may call it has been judged by then.
struct EndpointRequest: Sendable {
    let caller: Caller?
    let peer: PeerCredentials
    let socket: SocketKind
    /// What `{…}` stood for, in the path's order.
    let pathArguments: [String]
    let query: [String: String]
    let body: [UInt8]
    /// What of this request goes into the record.
    let record: RequestRecord

    /// `?dry_run=true`: everything is checked, nothing is changed.
    func isDryRun() throws(Refusal) -> Bool {
        // A mistyped dry run must not act.
        guard query.keys.allSatisfy({ $0 == "dry_run" }) else {
            throw Refusal(.malformedRequest, "The query has a parameter that is not known here; known is dry_run.")
        }
        return switch query["dry_run"] {
        case nil, "false": false
        case "true": true
        default: throw Refusal(.malformedRequest, "The query's dry_run must be true or false.")
        }
    }

    /// The caller of an endpoint that has a role, where there always is one.
    func knownCaller() throws(Refusal) -> Caller {
        guard let caller else { throw .defect }
        return caller
    }
}

/// What an endpoint answers, and what the log and the metrics say of it.
struct EndpointAnswer: Sendable {
    let http: HTTPAnswer
    /// The `outcome` label: `ok`, `repeat`, or a refusal's code.
    var outcome = "ok"
    /// Never anything of the payment itself.
    var metadata: Logger.Metadata = [:]
}
