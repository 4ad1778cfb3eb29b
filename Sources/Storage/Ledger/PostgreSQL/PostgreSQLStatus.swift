public import Foundation
public import PostgreSQLClient

/// Choices of a PostgreSQL ledger that are permitted and insecure: warned of, and `paytokend_insecure_settings`.
public enum InsecureLedgerSetting: String, Sendable, Equatable, CaseIterable, CustomStringConvertible {
    /// The connection is over TCP, and TLS does not tell the server from an impostor.
    case databaseTLS = "database_tls"
    /// No synchronous standby is named: what was released may be lost with the server.
    case databaseStandby = "database_standby"
    /// `synchronous_commit` is weaker than `on` for the daemon's role. Every batch sets it to `on` for itself.
    case databaseSynchronousCommit = "database_synchronous_commit"
    /// The daemon logs in as a superuser or as one who owns the tables: no right binds it.
    case databaseOwner = "database_owner"

    public var description: String {
        switch self {
        case .databaseTLS:
            "The ledger's server is reached over TCP with less than sslmode=verify-full: whoever is between can read and "
                + "change what is released. Use sslmode=verify-full and sslrootcert in ledger.url."
        case .databaseStandby:
            "The ledger's server names no synchronous standby (synchronous_standby_names): when it is lost, claims are, "
                + "and payment tokens could be released twice."
        case .databaseSynchronousCommit:
            "synchronous_commit is off, local or remote_write for the daemon's role or database; the daemon sets it to on for "
                + "each of its transactions. Reset it."
        case .databaseOwner:
            "The daemon logs in to the ledger's server as a superuser, or as a role that owns the tables or can act as their owner: "
                + "whoever has its login can change records and delete claims. Use a role of its own, with the rights that a daemon "
                + "needs and no others."
        }
    }
}

/// What a PostgreSQL ledger's server said of itself, and of the nodes that share it.
public struct PostgreSQLStatus: Sendable, Equatable {
    /// Another or this daemon's name in the ledger.
    public struct Node: Sendable, Equatable {
        public let name: String
        /// The daemon's version.
        public let version: String
        /// Its last commit, by the server's clock.
        public let lastSeen: Date
        /// Whether its lease has not run out.
        public let isLeased: Bool
        /// True if it has compared the ledger with what it remembers on the present server.
        public let hasCompared: Bool
    }

    /// The host and port in use, `db1:5432`; a socket's directory.
    public let host: String
    public let database: String
    public let role: String
    /// Such as `15.18 (Debian 15.18-0+deb12u1)`.
    public let serverVersion: String
    public let systemIdentifier: String
    /// Counted up by every promotion.
    public let timeline: Int
    /// `synchronous_standby_names`; nil when no synchronous standby is named.
    public let standbys: String?
    public let schemaVersion: Int
    public let nodes: [Node]

    /// A sentence for each node that was down when the server changed: no other node knows what it released last.
    public var warnings: [String] {
        nodes.filter { !$0.isLeased && !$0.hasCompared }.map { node in
            "Node \(node.name) is down and has not compared the ledger with what it remembers since the ledger's server changed. If "
                + "the change lost its last commits, the other nodes would release those payments again until it starts. "
                + "Start it. If it cannot be started and commits may be lost, accept a restore without a finding (SeveralHosts.md)."
        }
    }
}

/// This daemon's hold on its name.
public struct NodeLeaseStatus: Sendable, Equatable {
    /// Counted up each time that a daemon takes the name.
    public let fencingNumber: Int64
    /// Since the last commit that renewed it; `paytokend_node_lease_age_seconds`.
    public let age: Duration
    /// Another daemon has taken the name: this one commits nothing any more, and must be stopped.
    public let isLost: Bool
}

extension PostgreSQLURL {
    /// What is insecure by the URL alone, without a look at a service file or at the server.
    public var insecureSettings: Set<InsecureLedgerSetting> { hasUnverifiedServer ? [.databaseTLS] : [] }

    /// - Parameter parameters: libpq's, by their keywords.
    static func insecureSettings(of parameters: [String: String]) -> Set<InsecureLedgerSetting> {
        PostgreSQLSessionRules.hasUnverifiedServer(parameters) ? [.databaseTLS] : []
    }
}
