public import Foundation

/// The permitted but insecure settings of a ledger on a server. Each causes a warning and sets
/// `paytokend_insecure_settings`.
public enum InsecureLedgerSetting: String, Sendable, Equatable, CaseIterable, CustomStringConvertible {
    /// The connection uses TCP, and TLS does not verify the server's identity.
    case databaseTLS = "database_tls"
    /// No synchronous standby is named, so releases may be lost if the server is lost.
    case databaseStandby = "database_standby"
    /// `synchronous_commit` is weaker than `on` for the daemon's role. Releases are still safe, since every batch sets
    /// it to `on`.
    case databaseSynchronousCommit = "database_synchronous_commit"
    /// The daemon logs in as a superuser or as an owner of the tables, so grants do not restrict it.
    case databaseOwner = "database_owner"

    public var description: String {
        switch self {
        case .databaseTLS:
            "The ledger's server is reached over TCP with less than sslmode=verify-full, so an attacker on the network can read "
                + "and change what is released. Use sslmode=verify-full and sslrootcert in ledger.url."
        case .databaseStandby:
            "The ledger's server names no synchronous standby (synchronous_standby_names). If the server is lost, its claims are "
                + "lost too, and payment tokens could be released twice. Name a standby."
        case .databaseSynchronousCommit:
            "synchronous_commit is off, local or remote_write for the daemon's role or database; the daemon sets it to on for "
                + "each of its transactions. Reset it."
        case .databaseOwner:
            "The daemon logs in to the ledger's server as a superuser, or as a role that owns the tables or can act as their owner, "
                + "so its login can change records and delete claims. Use a separate role with only the rights that a daemon "
                + "needs."
        }
    }
}

/// The server that stores the ledger, and the nodes that share it, as the server reports them.
public struct LedgerServer: Sendable, Equatable {
    /// A node of the ledger, this one or another.
    public struct Node: Sendable, Equatable {
        public let name: String
        /// The daemon's version.
        public let version: String
        /// The time of the node's last commit, according to the server's clock.
        public let lastSeen: Date
        /// True if the node's lease has not ended.
        public let isLeased: Bool
        /// True if the node has compared its chain, on the current server, with the head that it remembers.
        public let hasCompared: Bool

        package init(
            name: String, version: String, lastSeen: Date, isLeased: Bool, hasCompared: Bool
        ) {
            (self.name, self.version, self.lastSeen, self.isLeased) = (name, version, lastSeen, isLeased)
            self.hasCompared = hasCompared
        }
    }

    /// The host and port in use, such as `db1:5432`, or a socket's directory.
    public let host: String
    public let database: String
    public let role: String
    /// The server's version, such as `15.18 (Debian 15.18-0+deb12u1)`.
    public let serverVersion: String
    public let systemIdentifier: String
    /// The server's timeline, which every promotion increments.
    public let timeline: Int
    /// The value of `synchronous_standby_names`; nil if no synchronous standby is named.
    public let standbys: String?
    public let schemaVersion: Int
    public let nodes: [Node]

    package init(
        host: String, database: String, role: String, serverVersion: String, systemIdentifier: String, timeline: Int,
        standbys: String?, schemaVersion: Int, nodes: [Node]
    ) {
        (self.host, self.database, self.role, self.serverVersion) = (host, database, role, serverVersion)
        (self.systemIdentifier, self.timeline, self.standbys) = (systemIdentifier, timeline, standbys)
        (self.schemaVersion, self.nodes) = (schemaVersion, nodes)
    }

    /// A warning for each node that was down when the server was replaced, promoted or restored. No other node can tell
    /// whether the server still has that node's last releases.
    public var warnings: [String] {
        nodes.filter { !$0.isLeased && !$0.hasCompared }.map { node in
            "Node \(node.name) is down and has not compared the ledger with what it remembers since the ledger's server changed. If "
                + "the change lost its last commits, the other nodes would release those payments again until it starts. "
                + "Start it. If it cannot be started and commits may be lost, accept a restore without a finding (SeveralHosts.md)."
        }
    }
}

/// The state of this daemon's lease of its name.
public struct NodeLeaseStatus: Sendable, Equatable {
    /// The fencing number. Each daemon that takes the node's name increments it, so an earlier daemon's commits fail.
    public let fencingNumber: Int64
    /// The time since the last commit that renewed the lease, exported as `paytokend_node_lease_age_seconds`.
    public let age: Duration
    /// True if another daemon has taken the name. This daemon can no longer commit anything and must be stopped.
    public let isLost: Bool

    package init(
        fencingNumber: Int64, age: Duration, isLost: Bool
    ) {
        (self.fencingNumber, self.age, self.isLost) = (fencingNumber, age, isLost)
    }
}

/// The daemon that has, or may still have, the lease of a node's name, as far as the server knows.
public struct NodeNameHolder: Sendable, Equatable {
    public let node: String
    /// The daemon's version.
    public let version: String
    /// The address of the daemon's session; nil if it has no session, or if it is connected through a socket on the
    /// server's host.
    public let address: String?
    /// True if the daemon has a session with the server.
    public let isConnected: Bool
    /// The time at which the lease ends if it is not renewed, according to the server's clock.
    public let until: Date

    package init(
        node: String, version: String, address: String?, isConnected: Bool, until: Date
    ) {
        (self.node, self.version, self.address, self.isConnected) = (node, version, address, isConnected)
        self.until = until
    }
}
