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
