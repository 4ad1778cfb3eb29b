extension Endpoints {
    /// The record's and the ledger's paths, all on the admin socket.
    static func record(_ audit: AuditRoutes, _ ledger: LedgerRoutes) -> [Endpoint] {
        [
            Endpoint("GET", "/v1/audit/records", on: [.admin], role: .audit, respond: audit.records),
            Endpoint("GET", "/v1/audit/export", on: [.admin], role: .audit, respond: audit.export),
            Endpoint("GET", "/v1/audit/public-key", on: [.admin], role: .audit, respond: audit.publicKey),
            Endpoint(
                "POST", "/v1/ledger/backup", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                respond: ledger.backup),
            Endpoint(
                "POST", "/v1/ledger/accept-restore", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                respond: ledger.acceptRestore),
        ]
    }

    /// The key that seals the record.
    static func auditKey(_ key: AuditKeyRoute) -> [Endpoint] {
        [
            Endpoint(
                "POST", "/v1/audit/key", on: [.admin], role: .admin, bodyLimit: LedgerRoutes.bodyLimit,
                respond: key.change)
        ]
    }
}
