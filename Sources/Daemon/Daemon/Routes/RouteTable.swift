import AccessControl
import DaemonAPI
import DaemonConfiguration
import HTTPListener
import PaymentToken
import Refusals
import ServerProgram
import UsageRecording

/// The table of all paths that the daemon answers. Each row has the sockets of the path, the role that the caller needs,
/// and the limits of the query and the body. The daemon answers no other path.
///
/// To add a path, add a method to the file of its subject in this folder, and a row here. Its request and answer types
/// belong in `DaemonAPI`, and its description in `DaemonAPI/openapi.json`, which RouteTableTests compare with this table.
/// Its subcommand belongs in `paytokenctl`.
struct RouteTable: Sendable {
    let payments: DecryptionRoutes
    let sessions: TLSRoutes
    let monitoring: MonitoringRoutes
    let keys: KeyRoutes
    let rotations: RotationRoutes
    let approvals: ApprovalRoutes
    let audit: AuditRoutes
    let auditKey: AuditKeyRoute
    let ledger: LedgerRoutes
    let reload: ReloadRoute
    let tokenUses: TokenUseRoutes
    let testKeys: TestKeyRoute
    let portal: PortalRoutes
    let renewals: RenewalRoutes

    /// Returns the table's rows, one for each method of each path.
    /// - Parameter bodyLimit: the value of `listener.max_request_bytes`.
    func endpoints(bodyLimit: Int) -> [Endpoint] {
        Self.payments(payments, bodyLimit: bodyLimit) + Self.sessions(sessions, bodyLimit: bodyLimit)
            + Self.monitoring(monitoring)
            + Self.keys(keys, bodyLimit: bodyLimit) + Self.rotations(rotations)
            + Self.approvals(approvals, bodyLimit: bodyLimit) + Self.audit(audit, ledger) + Self.auditKey(auditKey)
            + Self.portal(portal) + Self.renewals(renewals)
            + [
                Endpoint(
                    "GET", "/v1/tokens/{token}/uses", on: [.admin], role: .audit, query: TokenUseRoutes.parameters,
                    respond: tokenUses.uses),
                Endpoint(
                    "POST", "/v1/reload", on: [.admin], role: .admin, bodyLimit: Self.smallBodyLimit, dryRun: .offered,
                    respond: reload.reload),
                Endpoint(
                    "POST", "/v1/tokens/{token}/remove-test-keys", on: [.admin], role: .admin,
                    bodyLimit: Self.smallBodyLimit, dryRun: .offered, respond: testKeys.remove),
            ]
    }

    /// The limit in bytes for a body with a few names and a reason.
    private static let smallBodyLimit = 4096
    /// The limit in bytes for a body with the last sequence of each of 64 nodes.
    private static let reportBodyLimit = 16_384
    /// The limit in bytes for a body with 200 certificates in base64.
    private static let portalReportLimit = 1 << 20
    /// The limit in bytes for a body with one certificate in base64.
    private static let oneCertificate = 65_536

    static func payments(_ payments: DecryptionRoutes, bodyLimit: Int) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/decrypt", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "POST /v1/verify checks a payment token without releasing it"),
                respond: payments.decrypt),
            Endpoint(
                "POST", "/v1/verify", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "leave dry_run out, since this path changes nothing"),
                respond: payments.verify),
            Endpoint(
                "POST", "/v1/google-pay/decrypt", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "POST /v1/google-pay/verify checks a payment token without releasing it"),
                respond: payments.decryptGooglePay),
            Endpoint(
                "POST", "/v1/google-pay/verify", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "leave dry_run out, since this path changes nothing"),
                respond: payments.verifyGooglePay),
            Endpoint(
                "GET", "/v1/google-pay/public-key", on: [.payments], role: .decrypt, query: ["merchantIdentifier"],
                respond: payments.googlePayPublicKey),
        ]
    }

    static func sessions(_ sessions: TLSRoutes, bodyLimit: Int) -> [Endpoint] {
        [
            Endpoint(
                "GET", "/v1/tls-identities", on: [.payments], role: .session, query: ["merchantIdentifier"],
                respond: sessions.identities),
            Endpoint(
                "POST", "/v1/tls-signatures", on: [.payments], role: .session, bodyLimit: bodyLimit,
                respond: sessions.sign),
        ]
    }

    private static func monitoring(_ monitoring: MonitoringRoutes) -> [Endpoint] {
        [
            Endpoint("GET", "/healthz", on: [.payments, .admin], role: nil, respond: monitoring.health),
            Endpoint("GET", "/readyz", on: [.payments, .admin], role: nil, respond: monitoring.ready),
            Endpoint("GET", "/metrics", on: [.admin], role: .monitor, respond: monitoring.metrics),
            Endpoint("GET", "/v1/status", on: [.admin], role: .monitor, respond: monitoring.status),
        ]
    }

    private static func keys(_ keys: KeyRoutes, bodyLimit: Int) -> [Endpoint] {
        [
            Endpoint("GET", "/v1/keys", on: [.admin], role: .monitor, query: ["after", "limit"], respond: keys.list),
            Endpoint("GET", "/v1/keys/{key}", on: [.admin], role: .monitor, respond: keys.show),
            Endpoint("GET", "/v1/keys/{key}/public-key", on: [.admin], role: .monitor, respond: keys.publicKey),
            Endpoint(
                "POST", "/v1/keys", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: keys.generate),
            Endpoint(
                "POST", "/v1/keys/{key}/csr", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: keys.certificateRequest),
            Endpoint(
                "POST", "/v1/keys/{key}/proofs", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                dryRun: .refused(instead: "leave dry_run out, since a proof changes nothing but the record"),
                respond: keys.prove),
            Endpoint(
                "POST", "/v1/keys/import", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keys.importKey),
            Endpoint(
                "POST", "/v1/certificates", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keys.importCertificate),
            Endpoint(
                "POST", "/v1/keys/{key}/state", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keys.changeState),
            Endpoint(
                "POST", "/v1/keys/{key}/adopt", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keys.adopt),
        ]
    }

    private static func rotations(_ rotations: RotationRoutes) -> [Endpoint] {
        [
            Endpoint("GET", "/v1/rotations", on: [.admin], role: .monitor, respond: rotations.list),
            Endpoint("GET", "/v1/rotations/{merchant}", on: [.admin], role: .monitor, respond: rotations.show),
            Endpoint(
                "POST", "/v1/rotations", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: rotations.start),
            Endpoint(
                "POST", "/v1/rotations/certificate", on: [.admin], role: .admin, bodyLimit: oneCertificate,
                dryRun: .offered, respond: rotations.importCertificate),
            Endpoint(
                "POST", "/v1/rotations/added", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: rotations.added),
            Endpoint(
                "POST", "/v1/rotations/removed", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                dryRun: .offered, respond: rotations.removed),
            Endpoint(
                "POST", "/v1/rotations/{merchant}/finish", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                dryRun: .offered, respond: rotations.finish),
        ]
    }

    private static func approvals(_ approvals: ApprovalRoutes, bodyLimit: Int) -> [Endpoint] {
        [
            Endpoint("GET", "/v1/approvals", on: [.admin], role: .admin, respond: approvals.list),
            Endpoint(
                "POST", "/v1/approvals/{approval}", on: [.admin], role: .admin, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "GET /v1/approvals shows what a decision would do"),
                respond: approvals.decide),
        ]
    }

    /// Returns the rows for the key-usage record and for the ledger that contains it.
    static func audit(_ audit: AuditRoutes, _ ledger: LedgerRoutes) -> [Endpoint] {
        [
            Endpoint(
                "GET", "/v1/audit/records", on: [.admin], role: .audit, query: AuditPageQuery.parameters,
                respond: audit.records),
            Endpoint(
                "GET", "/v1/audit/export", on: [.admin], role: .audit, query: AuditExportQuery.parameters,
                respond: audit.export),
            Endpoint(
                "GET", "/v1/audit/head", on: [.admin], role: .audit, query: [NodeQuery.parameter], respond: audit.head),
            Endpoint(
                "GET", "/v1/audit/public-key", on: [.admin], role: .audit, query: [NodeQuery.parameter],
                respond: audit.publicKey),
            Endpoint(
                "POST", "/v1/audit/reports", on: [.admin], role: .audit, bodyLimit: reportBodyLimit,
                respond: audit.report),
            Endpoint(
                "POST", "/v1/ledger/backup", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: ledger.backup),
            Endpoint(
                "POST", "/v1/ledger/accept-restore", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                dryRun: .offered,
                respond: ledger.acceptRestore),
            Endpoint(
                "POST", "/v1/ledger/accept-clock", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                dryRun: .offered,
                respond: ledger.acceptClock),
        ]
    }

    /// Returns the rows for Apple's App Store Connect API: requested by people, made by the outbound program.
    static func portal(_ portal: PortalRoutes) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/portal/checks", on: [.admin], role: .audit, bodyLimit: smallBodyLimit,
                respond: portal.check),
            Endpoint(
                "GET", "/v1/portal/certificates", on: [.admin], role: .monitor, query: ["merchantIdentifier"],
                respond: portal.certificates),
            Endpoint(
                "POST", PortalRoutes.workPath, on: [.payments], role: .portalRead, bodyLimit: smallBodyLimit,
                respond: portal.work),
            Endpoint(
                "POST", PortalRoutes.workPath + "/{id}", on: [.payments], role: .portalRead,
                bodyLimit: portalReportLimit, respond: portal.report),
        ]
    }

    private static func renewals(_ renewals: RenewalRoutes) -> [Endpoint] {
        [
            Endpoint(
                "GET", "/v1/renewals/{merchant}", on: [.admin], role: .audit, query: [RenewalRoutes.excluded],
                respond: renewals.show),
            Endpoint(
                "POST", "/v1/renewals", on: [.admin], role: .admin, bodyLimit: smallBodyLimit,
                respond: renewals.advance),
        ]
    }

    /// Returns the row for the key that seals the record.
    private static func auditKey(_ auditKey: AuditKeyRoute) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/audit/key", on: [.admin], role: .admin, bodyLimit: smallBodyLimit, dryRun: .offered,
                respond: auditKey.change)
        ]
    }
}

/// A row of the route table: one method of one path.
typealias Endpoint = Route<EndpointAccess, EndpointRequest, Refusal>

extension Endpoint {
    /// - Parameters:
    ///   - role: the role that the caller needs; nil if the path answers any peer of the socket.
    ///   - query: the permitted parameters of the query, except `dry_run`.
    ///   - dryRun: the treatment of the parameter `dry_run`. By default it is refused, so that no endpoint can ignore it.
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

/// The permission that an endpoint requires, and the parameters that its query may have.
struct EndpointAccess: Sendable {
    let sockets: Set<SocketKind>
    let role: Role?
    let query: Set<String>
    let dryRun: DryRun

    enum DryRun: Sendable, Equatable {
        /// The endpoint supports dry runs, in which it checks everything and changes nothing. Its method must call
        /// ``EndpointRequest/isDryRun()``.
        case offered
        /// The endpoint has no dry run. A request with the parameter `dry_run` is refused, even with `dry_run=false`.
        /// - Parameter instead: the end of the refusal's sentence, which states what the caller can do instead.
        case refused(instead: String)
    }

    /// Throws if the query has a parameter that the endpoint does not know. Otherwise a mistyped condition, or a mistyped
    /// `dry_run`, would be ignored.
    ///
    /// - Throws: malformed_request. Its message does not repeat the unknown name, which may be anything, even a
    ///   mistyped account number.
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

/// A request as an endpoint receives it, after the router has checked that the peer may call the endpoint.
struct EndpointRequest: Sendable {
    let caller: Caller?
    let peer: PeerCredentials
    /// The values of the `{…}` parts in the path, in their order.
    let pathArguments: [String]
    let query: [String: String]
    let body: [UInt8]
    /// The draft of the request's audit record, to which the endpoint adds facts.
    let draft: AuditDraft
    /// The request's connection; nil if the request did not come through a connection.
    var origin: RequestOrigin?

    /// Waits for a turn of the peer on its event loop: the right to compute there. The caller must end the turn before
    /// it waits for anything, such as the HSM. Otherwise other requests on that event loop would also have to wait.
    ///
    /// - Throws: deadline_exceeded if the peer has closed its connection.
    func waitForTurn() async throws(Refusal) -> LoopTurn? {
        let turn = await origin?.turn(named: caller?.client?.text)
        guard origin?.hasLeft != true else {
            turn?.end()
            throw .peerHasLeft
        }
        return turn
    }

    /// Returns true for `?dry_run=true`: the endpoint must then check everything and change nothing. Only endpoints with
    /// ``EndpointAccess/DryRun/offered`` call it, since for all others the router refuses the parameter.
    func isDryRun() throws(Refusal) -> Bool { try Self.isDryRun(query) }

    fileprivate static func isDryRun(_ query: [String: String]) throws(Refusal) -> Bool {
        switch query["dry_run"] {
        case nil, "false": return false
        case "true": return true
        default: throw Refusal(.malformedRequest, "The query's dry_run must be true or false.", details: "dry_run")
        }
    }

    /// Returns the caller. Only endpoints that require a role may call it, since any other endpoint may have no caller.
    func knownCaller() throws(Refusal) -> Caller {
        guard let caller else { throw .defect }
        return caller
    }
}

extension EndpointAnswer {
    /// Returns an answer with a type of the API as its JSON body.
    static func json(_ value: some Encodable, status: Int = 200, outcome: String = "ok") throws(Refusal) -> Self {
        do {
            return EndpointAnswer(http: .json(status: status, try JSONCoding.encode(value)), outcome: outcome)
        } catch {
            throw .defect
        }
    }
}
