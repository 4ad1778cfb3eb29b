public import Ledger
public import PostgreSQLClient

extension PostgreSQLURL {
    /// The insecure settings that are evident from the URL alone, without a service file or the server.
    public var insecureSettings: Set<InsecureLedgerSetting> { hasUnverifiedServer ? [.databaseTLS] : [] }
}

extension PostgreSQLSessionFacts {
    package var insecureSettings: Set<InsecureLedgerSetting> {
        var insecure: Set<InsecureLedgerSetting> = []
        if isUnverified { insecure.insert(.databaseTLS) }
        if !reachesStandby { insecure.insert(.databaseSynchronousCommit) }
        if !isStandbyNamed { insecure.insert(.databaseStandby) }
        if isOwner { insecure.insert(.databaseOwner) }
        return insecure
    }
}
