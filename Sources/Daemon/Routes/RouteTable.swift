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
