/// Every path that the daemon answers. A path that is not in this table does not exist.
struct RouteTable: Sendable {
    let decrypt: DecryptRoute
    let verify: VerifyRoute
    let health: HealthRoutes
    let metrics: MetricsRoute
    let status: StatusRoute
    let keys: KeyRoutes
    let imports: ImportRoutes
    let keyStates: KeyStateRoutes
    let approvals: ApprovalRoutes

    func all(bodyLimit: Int) -> [Endpoint] {
        let both = Set(SocketKind.allCases)
        return [
            Endpoint(
                "POST", "/v1/decrypt", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "POST /v1/verify checks a payment token without releasing it"),
                respond: decrypt.respond),
            Endpoint(
                "POST", "/v1/verify", on: [.payments], role: .decrypt, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "leave dry_run out, since this path changes nothing"), respond: verify.respond
            ),
            Endpoint("GET", "/healthz", on: both, role: nil, respond: health.health),
            Endpoint("GET", "/readyz", on: both, role: nil, respond: health.ready),
            Endpoint("GET", "/metrics", on: [.admin], role: .monitor, respond: metrics.respond),
            Endpoint("GET", "/v1/status", on: [.admin], role: .monitor, respond: status.respond),
            Endpoint("GET", "/v1/keys", on: [.admin], role: .monitor, query: ["after", "limit"], respond: keys.list),
            Endpoint("GET", "/v1/keys/{key}", on: [.admin], role: .monitor, respond: keys.show),
            Endpoint(
                "POST", "/v1/keys/import", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: imports.importKey),
            Endpoint(
                "POST", "/v1/keys/{key}/state", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keyStates.change),
            Endpoint(
                "POST", "/v1/keys/{key}/adopt", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: keyStates.adopt),
            Endpoint("GET", "/v1/approvals", on: [.admin], role: .admin, respond: approvals.list),
            Endpoint(
                "POST", "/v1/approvals/{approval}", on: [.admin], role: .admin, bodyLimit: bodyLimit,
                dryRun: .refused(instead: "GET /v1/approvals shows what a decision would do"), respond: approvals.decide
            ),
            Endpoint(
                "POST", "/v1/certificates", on: [.admin], role: .admin, bodyLimit: bodyLimit, dryRun: .offered,
                respond: imports.importCertificate),
        ]
    }
}

extension RouteTable {
    /// The record's and the ledger's paths, all on the admin socket.
    static func record(_ audit: AuditRoutes, _ ledger: LedgerRoutes) -> [Endpoint] {
        [
            Endpoint(
                "GET", "/v1/audit/records", on: [.admin], role: .audit, query: AuditPageQuery.parameters,
                respond: audit.records),
            Endpoint(
                "GET", "/v1/audit/export", on: [.admin], role: .audit, query: AuditExportQuery.parameters,
                respond: audit.export),
            Endpoint("GET", "/v1/audit/public-key", on: [.admin], role: .audit, respond: audit.publicKey),
            Endpoint(
                "POST", "/v1/ledger/backup", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                dryRun: .offered, respond: ledger.backup),
            Endpoint(
                "POST", "/v1/ledger/accept-restore", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                dryRun: .refused(instead: "GET /v1/status says what there is to accept"), respond: ledger.acceptRestore),
            Endpoint(
                "POST", "/v1/ledger/accept-clock", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                dryRun: .offered, respond: ledger.acceptClock),
        ]
    }

    /// The key that seals the record.
    static func auditKey(_ key: AuditKeyRoute) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/audit/key", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                dryRun: .offered, respond: key.change)
        ]
    }
}

extension RouteTable {
    /// Keys that are made inside a token, and rotations; all on the admin socket.
    static func generation(_ keys: KeyGenerationRoutes, _ rotations: RotationRoutes) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/keys", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: keys.generate),
            Endpoint(
                "POST", "/v1/keys/{key}/csr", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: keys.certificateRequest),
            Endpoint("GET", "/v1/rotations", on: [.admin], role: .monitor, respond: rotations.list),
            Endpoint(
                "POST", "/v1/rotations", on: [.admin], role: .admin, bodyLimit: wordsLimit, dryRun: .offered,
                respond: rotations.start),
            Endpoint(
                "POST", "/v1/rotations/certificate", on: [.admin], role: .admin, bodyLimit: certificateLimit,
                dryRun: .offered, respond: rotations.importCertificate),
            Endpoint("GET", "/v1/rotations/{merchant}", on: [.admin], role: .monitor, respond: rotations.show),
            Endpoint(
                "POST", "/v1/rotations/{merchant}/finish", on: [.admin], role: .admin, bodyLimit: wordsLimit,
                dryRun: .offered, respond: rotations.finish),
        ]
    }

    /// A few names.
    private static let wordsLimit = 4096
    /// A certificate in base64.
    private static let certificateLimit = 65_536
}
