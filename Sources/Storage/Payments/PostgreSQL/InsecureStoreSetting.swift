public import PostgreSQLClient

/// Permitted but insecure settings of a store in PostgreSQL.
public enum InsecureStoreSetting: String, Sendable, CaseIterable, CustomStringConvertible {
    /// The gateway logs in as a superuser, or as a role that can act as the tables' owner. Privileges do not restrict
    /// such a role.
    case databaseOwner = "database_owner"
    /// The server names no synchronous standby.
    case databaseStandby = "database_standby"
    /// The connection is over TCP, and its TLS settings do not authenticate the server.
    case databaseTLS = "database_tls"

    public var description: String {
        switch self {
        case .databaseOwner:
            "the gateway logs in as a superuser, or as one that can act as the tables' owner, so its rights do not restrict it; use a "
                + "separate role, with the rights that \(PostgreSQLPaymentSchema.command) --grant ROLE gives"
        case .databaseStandby:
            "the server has no synchronous standby: if it is lost, the outcomes of payments are lost, too"
        case .databaseTLS:
            "the server is reached over TCP with less than sslmode=verify-full, so an attacker between the two can change the "
                + "outcomes of payments"
        }
    }

    /// The insecure settings of the URL alone, without reading a service file or asking the server.
    public static func ofURL(_ url: PostgreSQLURL) -> Set<Self> { url.hasUnverifiedServer ? [.databaseTLS] : [] }

    static func of(_ facts: PostgreSQLSessionFacts) -> Set<Self> {
        var insecure: Set<Self> = []
        if facts.isOwner { insecure.insert(.databaseOwner) }
        if !facts.isStandbyNamed { insecure.insert(.databaseStandby) }
        if facts.isUnverified { insecure.insert(.databaseTLS) }
        return insecure
    }
}
