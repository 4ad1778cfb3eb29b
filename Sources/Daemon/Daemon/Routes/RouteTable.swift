/// Every path that the daemon answers, with its sockets, the role that it needs, and the limits of its query and body.
/// A path that is not in this file does not exist.
///
/// To add a path, add a method to the file of its subject in this folder, and a row here. Its body and its answer
/// belong in `DaemonAPI`, its description in `DaemonAPI/openapi.json`, which RouteTableTests compare with this table,
/// and its subcommand in `paytokenctl`.
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
    let tokenUses: TokenUseRoutes

    /// - Parameter bodyLimit: `listener.max_request_bytes`.
    func endpoints(bodyLimit: Int) -> [Endpoint] {
        Self.payments(payments, bodyLimit: bodyLimit) + Self.sessions(sessions, bodyLimit: bodyLimit)
            + Self.monitoring(monitoring)
            + Self.keys(keys, bodyLimit: bodyLimit) + Self.rotations(rotations)
            + Self.approvals(approvals, bodyLimit: bodyLimit) + Self.audit(audit, ledger) + Self.auditKey(auditKey)
            + [
                Endpoint(
                    "GET", "/v1/tokens/{token}/uses", on: [.admin], role: .audit, query: TokenUseRoutes.parameters,
                    respond: tokenUses.uses)
            ]
    }

    /// Enough for a few names and a reason.
    private static let fewWords = 4096
    /// Enough for a certificate in base64.
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
            Endpoint(
                "POST", "/v1/keys", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: keys.generate),
            Endpoint(
                "POST", "/v1/keys/{key}/csr", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: keys.certificateRequest),
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
                "POST", "/v1/rotations", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: rotations.start),
            Endpoint(
                "POST", "/v1/rotations/certificate", on: [.admin], role: .admin, bodyLimit: oneCertificate,
                dryRun: .offered, respond: rotations.importCertificate),
            Endpoint(
                "POST", "/v1/rotations/{merchant}/finish", on: [.admin], role: .admin, bodyLimit: fewWords,
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

    /// The key-usage record and its ledger.
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
                "POST", "/v1/ledger/backup", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: ledger.backup),
            Endpoint(
                "POST", "/v1/ledger/accept-restore", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: ledger.acceptRestore),
            Endpoint(
                "POST", "/v1/ledger/accept-clock", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: ledger.acceptClock),
        ]
    }

    /// The key that seals the record.
    private static func auditKey(_ auditKey: AuditKeyRoute) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/audit/key", on: [.admin], role: .admin, bodyLimit: fewWords, dryRun: .offered,
                respond: auditKey.change)
        ]
    }
}
