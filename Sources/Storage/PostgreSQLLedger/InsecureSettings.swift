public import Ledger
public import PostgreSQLClient

extension PostgreSQLURL {
    /// The insecure settings that are evident from the URL alone, without a service file or the server.
    public var insecureSettings: Set<InsecureLedgerSetting> { hasUnverifiedServer ? [.databaseTLS] : [] }

    /// - Parameter parameters: libpq's parameters by keyword.
    package static func insecureSettings(of parameters: [String: String]) -> Set<InsecureLedgerSetting> {
        PostgreSQLSessionRules.hasUnverifiedServer(parameters) ? [.databaseTLS] : []
    }
}
