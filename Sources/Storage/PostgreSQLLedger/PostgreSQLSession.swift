import DatabaseKit
import Dispatch
import Foundation
package import Ledger
package import PostgreSQLClient
import Synchronization

/// Opens sessions with a ledger's server.
///
/// Opening a session resolves names, which can block for as long as the resolver takes. Each attempt therefore runs on
/// its own thread, and callers wait for it until a deadline. There is one attempt at a time; if it ends too late, its
/// session is given to the next caller.
package final class PostgreSQLSession: Sendable {
    /// The facts that a session's server reported when it was opened.
    struct Facts: Sendable {
        var host = ""
        var database = ""
        var role = ""
        var serverVersion = ""
        var systemIdentifier = ""
        var timeline = 0
        var insecureSettings: Set<InsecureLedgerSetting> = []
    }

    private final class Attempt: Sendable {
        let ended = DispatchSemaphore(value: 0)
        let result = Mutex<Result<PostgreSQLConnection, LedgerOpeningError>?>(nil)
    }

    private let hosts: PostgreSQLHosts
    private let settings: [(name: String, value: String)]
    private let timeout: Duration
    private let requiresStandby: Bool
    private let attempt = Mutex<Attempt?>(nil)
    private let opened: @Sendable (Facts) -> Void

    /// - Parameters:
    ///   - hosts: shared by a ledger's sessions, so that what one of them finds serves the others.
    ///   - settings: the session's settings, in addition to those that all sessions have.
    ///   - requiresStandby: true to refuse a server on which the settings of the role or database let commits skip the
    ///     standby's disk.
    ///   - opened: receives the facts of each new session.
    init(
        _ hosts: PostgreSQLHosts, timeout: Duration, settings: [(name: String, value: String)],
        requiresStandby: Bool = false,
        opened: @escaping @Sendable (Facts) -> Void = { _ in }
    ) {
        self.hosts = hosts
        self.timeout = timeout
        self.settings = settings
        self.requiresStandby = requiresStandby
        self.opened = opened
    }

    /// Opens a new session; blocks until `deadline` at most.
    func open(until deadline: ContinuousClock.Instant) throws(LedgerOpeningError) -> PostgreSQLConnection {
        let attempt = attempt.withLock { current in
            if let current { return current }
            let new = Attempt()
            current = new
            // Use a dedicated thread: all of libdispatch's few shared threads may be blocked, even in resolvers.
            Thread.detachNewThread { [self] in
                let result = Result { () throws(LedgerOpeningError) in try connect(until: .now + timeout) }
                new.result.withLock { $0 = result }
                new.ended.signal()
            }
            return new
        }
        let left = max(0, StoredTime.milliseconds(ContinuousClock.now.duration(to: deadline)))
        guard attempt.ended.wait(timeout: .now() + .milliseconds(Int(left))) == .success else {
            throw LedgerOpeningError(PostgreSQLOpeningFailure.late, server: hosts.url.server)
        }
        self.attempt.withLock { $0 = nil }
        guard let result = attempt.result.withLock({ $0 }) else {
            throw LedgerOpeningError(PostgreSQLOpeningFailure.unreachable, server: hosts.url.server)
        }
        return try result.get()
    }

    /// Connects to a server that is new enough, without checking its schema.
    package static func connection(
        to hosts: PostgreSQLHosts, until deadline: ContinuousClock.Instant
    ) throws(LedgerOpeningError) -> PostgreSQLConnection {
        do throws(PostgreSQLOpeningFailure) {
            return try hosts.connect(until: deadline)
        } catch {
            throw LedgerOpeningError(error, server: hosts.url.server)
        }
    }

    package static func pooled(_ url: PostgreSQLURL) -> LedgerOpeningError {
        .cannotOpen(
            path: url.server,
            reason:
                "a connection pooler between the daemon and the server could mix this session's settings and statements "
                + "with those of others. Name the server itself.")
    }

    private func connect(until deadline: ContinuousClock.Instant) throws(LedgerOpeningError) -> PostgreSQLConnection {
        let url = hosts.url
        let connection = try Self.connection(to: hosts, until: deadline)
        do {
            let results = try connection.exchange([Self.facts, setting, Self.version], until: deadline)
            guard let facts = results.first?.rows.first, let found = try results.last?.rows.first?.integer(0) else {
                throw LedgerOpeningError.notALedger(path: url.server)
            }
            // A pooler has its own sessions with the server and returns a different process number, which reveals it.
            guard try facts.integer(6) == connection.serverProcess else { throw Self.pooled(url) }
            try PostgreSQLSchema.requireVersion(Int(found), url)
            let read = try Self.read(facts, connection)
            guard !requiresStandby || !read.insecureSettings.contains(.databaseSynchronousCommit) else {
                throw LedgerOpeningError.cannotOpen(
                    path: url.server,
                    reason:
                        "synchronous_commit is neither on nor remote_apply for the role \(read.role), and ledger.require_standby "
                        + "requires commits that reach the standby's disk. Reset it for the role, the database or the server."
                )
            }
            connection.server = ServerIdentity(
                systemIdentifier: read.systemIdentifier, timeline: Int64(read.timeline))
            opened(read)
            return connection
        } catch {
            throw LedgerOpeningError(of: error, server: url.server)
        }
    }

    private var setting: PostgreSQLStatement {
        PostgreSQLSessionRules.setting(schema: PostgreSQLTables.schema, settings)
    }

    private static let version = PostgreSQLStatement(
        "SELECT schema_version FROM \(PostgreSQLTables.schema).ledger_state")

    /// The timeline from the name of the log's file; the control file shows a promotion only after PostgreSQL's next
    /// checkpoint.
    static let timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint"

    /// Read before anything is set, to see the settings of the role and the server.
    private static let facts = PostgreSQLStatement(
        """
        SELECT current_user::text, current_setting('server_version'), system_identifier::text,
            \(timeline), current_setting('synchronous_commit'),
            current_setting('synchronous_standby_names'), pg_backend_pid()::bigint,
            EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper)
                OR EXISTS (SELECT FROM pg_namespace
                    WHERE nspname = '\(PostgreSQLTables.schema)' AND pg_has_role(nspowner, 'MEMBER'))
        FROM pg_control_system()
        """)

    private static func read(_ row: PostgreSQLRow, _ connection: PostgreSQLConnection) throws -> Facts {
        var insecure = PostgreSQLURL.insecureSettings(of: connection.parameters)
        // `off` and `local` do not wait for a standby; `remote_write` waits only for its memory.
        if !["on", "remote_apply"].contains(try row.text(4)) { insecure.insert(.databaseSynchronousCommit) }
        if try row.text(5).isEmpty { insecure.insert(.databaseStandby) }
        if try row.boolean(7) { insecure.insert(.databaseOwner) }
        return Facts(
            host: connection.host, database: connection.database, role: try row.text(0),
            serverVersion: try row.text(1), systemIdentifier: try row.text(2), timeline: Int(try row.integer(3)),
            insecureSettings: insecure)
    }
}

extension LedgerOpeningError {
    /// Converts any error that occurs while the ledger on a server is opened.
    package init(of error: any Error, server: String) {
        self =
            switch error {
            case let error as LedgerOpeningError: error
            case let error as PostgreSQLFailure: LedgerOpeningError(error, server: server)
            default: .cannotOpen(path: server, reason: LedgerFailure(error).description)
            }
    }

    init(_ failure: PostgreSQLOpeningFailure, server: String) {
        self =
            failure.isPassing
            ? .unreachable(server: server, reason: failure.reason) : .cannotOpen(path: server, reason: failure.reason)
    }

    init(_ failure: PostgreSQLFailure, server: String) {
        switch failure {
        case .refused(let state, _) where [.undefinedTable, .invalidSchema].contains(state):
            self = .noSchema(server: server)
        case .refused(let state, _) where state == .insufficientPrivilege:
            self = .cannotOpen(
                path: server, reason: "its role lacks a privilege. Grant it with the account of the ledger's owner.")
        case .refused(let state, _) where state == .nodeIsMoving:
            self = .cannotOpen(
                path: server,
                reason:
                    "the move of this node's former ledger, a file, into this database is not complete. Repeat "
                    + "the move.")
        case .refused(let state, _) where !state.isPassing && state != .readOnly && state != .lockNotAvailable:
            self = .cannotOpen(path: server, reason: "PostgreSQL reports \(state).")
        case .refused(let state, _): self = .unreachable(server: server, reason: "PostgreSQL reports \(state).")
        case .lost, .late: self = .unreachable(server: server, reason: failure.failure.description)
        }
    }
}

/// A place for one connection, which is opened when needed and reopened after it was dropped. Only one thread at a time
/// uses it.
final class PostgreSQLSlot: @unchecked Sendable {
    private let session: PostgreSQLSession
    private var connection: PostgreSQLConnection?

    init(_ session: PostgreSQLSession, _ connection: PostgreSQLConnection? = nil) {
        self.session = session
        self.connection = connection
    }

    var isConnected: Bool { connection != nil }

    func current(until deadline: ContinuousClock.Instant) throws(LedgerFailure) -> PostgreSQLConnection {
        if let connection { return connection }
        do throws(LedgerOpeningError) {
            let new = try session.open(until: deadline)
            connection = new
            return new
        } catch {
            throw .unavailable(reason: error.description)
        }
    }

    /// Abandons the session in any state, without waiting for its end on the server.
    func drop() {
        connection = nil
    }
}
