import AccessControl
import DaemonAPI
import HTTPListener
import PaymentToken
import Refusals
import ServerProgram

/// One method on one path of the daemon.
typealias Endpoint = Route<EndpointAccess, EndpointRequest, Refusal>

extension Endpoint {
    /// - Parameters:
    ///   - role: that the caller needs; nil where any peer of the socket is served.
    ///   - query: the names that the query may have, with `dry_run` besides.
    ///   - dryRun: what `?dry_run=true` does here. Unless the table says otherwise it is refused, so none ignores it.
    convenience init(
        _ method: String, _ path: String, on sockets: Set<SocketKind>, role: Role?, bodyLimit: Int = 0,
        query: Set<String> = [], dryRun: EndpointAccess.DryRun = .refused(instead: "leave dry_run out"),
        respond: @escaping @Sendable (EndpointRequest) async throws(Refusal) -> EndpointAnswer
    ) {
        self.init(
            method, path, access: EndpointAccess(sockets: sockets, role: role, query: query, dryRun: dryRun),
            bodyLimit: bodyLimit, respond: respond)
    }
}

/// The right to call an endpoint, and the query that it takes.
struct EndpointAccess: Sendable {
    let sockets: Set<SocketKind>
    let role: Role?
    let query: Set<String>
    let dryRun: DryRun

    enum DryRun: Sendable, Equatable {
        /// Everything is checked, nothing is changed; the endpoint asks ``EndpointRequest/isDryRun()``.
        case offered
        /// The parameter is refused, whatever its value, and the request is not carried out.
        /// - Parameter instead: what the caller can do, as the second half of a sentence.
        case refused(instead: String)
    }

    /// Checks that the query has only what this endpoint takes. A condition or a dry run that was mistyped must not be ignored.
    ///
    /// - Throws: malformed_request. An unknown name is not repeated: it may be anything, a mistyped account number too.
    func checkQuery(_ members: [String: String]) throws(Refusal) {
        guard !members.isEmpty else { return }
        if members["dry_run"] != nil {
            switch dryRun {
            case .refused(let instead):
                throw Refusal(
                    .malformedRequest, "This path has no dry run, and nothing was done; \(instead).", details: "dry_run"
                )
            case .offered: _ = try EndpointRequest.isDryRun(members)
            }
        }
        var known = query
        if dryRun == .offered { known.insert("dry_run") }
        guard known.union(["dry_run"]).isSuperset(of: members.keys) else {
            throw Refusal(
                .malformedRequest,
                "The query has a parameter that is not known here; correct its name or leave it out.",
                details: known.isEmpty
                    ? "this path takes no parameter" : "known are: \(known.sorted().joined(separator: ", "))")
        }
    }
}

/// What an endpoint gets to see. The router has checked by then that the peer may call it.
struct EndpointRequest: Sendable {
    let caller: Caller?
    let peer: PeerCredentials
    /// What `{…}` stood for, in the path's order.
    let pathArguments: [String]
    let query: [String: String]
    let body: [UInt8]
    /// What of this request goes into its audit record.
    let draft: AuditDraft
    /// The connection that it came by; nil where there is none.
    var origin: RequestOrigin?

    /// Waits for the peer's turn on its event loop, to compute for this request. The turn is to be ended before anything else is
    /// waited for.
    ///
    /// - Throws: deadline_exceeded when the peer has closed its connection.
    func turn() async throws(Refusal) -> LoopTurn? {
        let turn = await origin?.turn(named: caller?.client?.text)
        guard origin?.hasLeft != true else {
            turn?.end()
            throw .peerHasLeft
        }
        return turn
    }

    /// `?dry_run=true`: everything is checked, nothing is changed. Only for an endpoint whose dry run is
    /// ``EndpointAccess/DryRun/offered``; the router refuses the parameter at any other.
    func isDryRun() throws(Refusal) -> Bool { try Self.isDryRun(query) }

    fileprivate static func isDryRun(_ query: [String: String]) throws(Refusal) -> Bool {
        switch query["dry_run"] {
        case nil, "false": return false
        case "true": return true
        default: throw Refusal(.malformedRequest, "The query's dry_run must be true or false.", details: "dry_run")
        }
    }

    /// The caller of an endpoint that has a role, where there always is one.
    func knownCaller() throws(Refusal) -> Caller {
        guard let caller else { throw .defect }
        return caller
    }
}

extension EndpointAnswer {
    /// A JSON answer of one of the API's types.
    static func json(_ value: some Encodable, status: Int = 200, outcome: String = "ok") throws(Refusal) -> Self {
        do {
            return EndpointAnswer(http: .json(status: status, try JSONCoding.encode(value)), outcome: outcome)
        } catch {
            throw .defect
        }
    }
}
