/// The ledger in a PostgreSQL database, which several hosts share.
public final class PostgreSQLLedger: Sendable {
    public struct Settings: Sendable, Equatable {
        public var url: PostgreSQLURL
        /// Holds the role's password in one line; read for each connection. Nil: peer authentication, a certificate, or a
        /// service file's.
        public var passwordFile: String?
        /// This host's name among those that share the ledger: 1 to 64 letters, digits, dots, hyphens and underscores.
        public var node: String
        /// The daemon's version, which the other nodes' status shows.
        public var version: String
        /// How long after its release a transaction can be released again by its reference; zero: never.
        public var repeatFor: Duration
        /// How many writes may wait for the writer; more are refused as `overloaded`.
        public var waiting: Int
        /// The longest that a call waits for its answer; it throws `timedOut` then.
        public var timeout: Duration
        /// How long a daemon that ended without giving its name back keeps others from taking it.
        public var lease: Duration
        /// Whether ``Ledger/probe()`` fails while the server names no synchronous standby.
        public var requiresStandby: Bool

        public init(
            url: PostgreSQLURL, passwordFile: String? = nil, node: String, version: String = "",
            repeatFor: Duration = .seconds(86_400), waiting: Int = 1024, timeout: Duration = .seconds(10),
            lease: Duration = .seconds(15), requiresStandby: Bool = false
        ) {
            self.url = url
            self.passwordFile = passwordFile
            self.node = node
            self.version = version
            self.repeatFor = repeatFor
            self.waiting = waiting
            self.timeout = timeout
            self.lease = lease
            self.requiresStandby = requiresStandby
        }
    }

    /// Opens the ledger, whose schema `ledger create` has made, and takes the node's name, which may wait for one lease.
    ///
    /// - Parameter observe: is told of every batch, on the writer's thread; it must not block.
    public static func open(
        _ settings: Settings, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws(LedgerOpeningError) -> PostgreSQLLedger {
        throw .cannotOpen(path: settings.url.server, reason: "PostgreSQL is not yet supported.")
    }

    /// What is insecure in force, as the newest session and the newest batch found it.
    public var insecureSettings: Set<InsecureLedgerSetting> { [] }

    /// This daemon's hold on its name.
    public var lease: NodeLeaseStatus { NodeLeaseStatus(fencingNumber: 0, age: .zero, isLost: false) }

    /// What the server says of itself and of the nodes, asked now.
    public func status() async throws(LedgerFailure) -> PostgreSQLStatus {
        throw .unavailable(reason: "PostgreSQL is not yet supported.")
    }
}
