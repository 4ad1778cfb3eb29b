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
    ///   - role: the role that the caller needs; nil if any peer of the socket is served.
    ///   - query: the permitted names in the query, in addition to `dry_run`.
    ///   - dryRun: the treatment of `?dry_run=true`. By default it is refused, so no endpoint ignores it.
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

/// The permission to call an endpoint, and its query parameters.
struct EndpointAccess: Sendable {
    let sockets: Set<SocketKind>
    let role: Role?
    let query: Set<String>
    let dryRun: DryRun

    enum DryRun: Sendable, Equatable {
        /// Everything is checked and nothing is changed; the endpoint reads ``EndpointRequest/isDryRun()``.
        case offered
        /// The parameter is refused with any value, and the request is not carried out.
        /// - Parameter instead: the alternative for the caller, as the second half of a sentence.
        case refused(instead: String)
    }

    /// Checks that the query has only parameters of this endpoint. A mistyped condition or dry run must not be ignored.
    ///
    /// - Throws: malformed_request. An unknown name is not repeated: it may be anything, even a mistyped account
    ///   number.
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
                "The query has an unknown parameter; correct its name or leave it out.",
                details: known.isEmpty
                    ? "this path takes no parameter" : "parameters are: \(known.sorted().joined(separator: ", "))")
        }
    }
}

/// A request as an endpoint receives it, after the router has checked the peer's permission.
struct EndpointRequest: Sendable {
    let caller: Caller?
    let peer: PeerCredentials
    /// The values of the path's `{…}` parts, in order.
    let pathArguments: [String]
    let query: [String: String]
    let body: [UInt8]
    /// The facts of this request for its audit record.
    let draft: AuditDraft
    /// The request's connection; nil if it has none.
    var origin: RequestOrigin?

    /// Waits for the peer's turn on its event loop, to compute for this request. End the turn before waiting for
    /// anything else.
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

    /// Returns true for `?dry_run=true`: everything is checked, nothing is changed. Only for an endpoint whose dry run
    /// is ``EndpointAccess/DryRun/offered``; the router refuses the parameter at all others.
    func isDryRun() throws(Refusal) -> Bool { try Self.isDryRun(query) }

    fileprivate static func isDryRun(_ query: [String: String]) throws(Refusal) -> Bool {
        switch query["dry_run"] {
        case nil, "false": return false
        case "true": return true
        default: throw Refusal(.malformedRequest, "The query's dry_run must be true or false.", details: "dry_run")
        }
    }

    /// Returns the caller of an endpoint that requires a role, where there always is one.
    func knownCaller() throws(Refusal) -> Caller {
        guard let caller else { throw .defect }
        return caller
    }
}

extension EndpointAnswer {
    /// Returns a JSON answer of one of the API's types.
    static func json(_ value: some Encodable, status: Int = 200, outcome: String = "ok") throws(Refusal) -> Self {
        do {
            return EndpointAnswer(http: .json(status: status, try JSONCoding.encode(value)), outcome: outcome)
        } catch {
            throw .defect
        }
    }
}
