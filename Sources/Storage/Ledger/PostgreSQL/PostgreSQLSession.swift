import DatabaseKit
import Dispatch
import Foundation
import PostgreSQLClient
import Synchronization

/// How sessions with a ledger's server are opened, by whatever connection needs one.
///
/// Opening one resolves names, which blocks for as long as the resolver pleases: each attempt runs on a thread of its own, and
/// whoever waits for it does so until a deadline. There is one attempt at a time; one that comes too late serves the next
/// who asks.
final class PostgreSQLSession: Sendable {
    /// What a session's server said when it was opened.
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

    let url: PostgreSQLURL
    private let passwordFile: String?
    private let parameters: [String: String]
    private let settings: [(name: String, value: String)]
    private let timeout: Duration
    private let requiresStandby: Bool
    private let attempt = Mutex<Attempt?>(nil)
    private let opened: @Sendable (Facts) -> Void

    /// - Parameters:
    ///   - settings: of the session, in addition to those that all have.
    ///   - requiresStandby: refuses a server whose commits need not reach the standby's disk by the role's or the database's choice.
    ///   - opened: gets the facts of each new session.
    init(
        _ url: PostgreSQLURL, passwordFile: String?, application: String, timeout: Duration,
        settings: [(name: String, value: String)], requiresStandby: Bool = false,
        opened: @escaping @Sendable (Facts) -> Void = { _ in }
    ) {
        self.url = url
        self.passwordFile = passwordFile
        self.timeout = timeout
        self.settings = settings
        self.requiresStandby = requiresStandby
        self.opened = opened
        parameters = PostgreSQLSessionRules.parameters(url, timeout: timeout, application: application)
    }

    /// A new session; blocks until `deadline` at most.
    func open(until deadline: ContinuousClock.Instant) throws(LedgerOpeningError) -> PostgreSQLConnection {
        let attempt = attempt.withLock { current in
            if let current { return current }
            let new = Attempt()
            current = new
            // Not one of the few that libdispatch has for all: those may all be blocked, in resolvers too.
            Thread.detachNewThread { [self] in
                let result = Result { () throws(LedgerOpeningError) in try connect(until: .now + timeout) }
                new.result.withLock { $0 = result }
                new.ended.signal()
            }
            return new
        }
        let left = max(0, StoredTime.milliseconds(ContinuousClock.now.duration(to: deadline)))
        guard attempt.ended.wait(timeout: .now() + .milliseconds(Int(left))) == .success else {
            throw LedgerOpeningError(PostgreSQLOpeningFailure.late, server: url.server)
        }
        self.attempt.withLock { $0 = nil }
        guard let result = attempt.result.withLock({ $0 }) else {
            throw LedgerOpeningError(PostgreSQLOpeningFailure.unreachable, server: url.server)
        }
        return try result.get()
    }

    /// A connection to a server that is new enough; whose schema is there is not looked at.
    static func connection(
        to url: PostgreSQLURL, _ parameters: [String: String], passwordFile: String?,
        until deadline: ContinuousClock.Instant
    ) throws(LedgerOpeningError) -> PostgreSQLConnection {
        do throws(PostgreSQLOpeningFailure) {
            return try PostgreSQLConnection(parameters, passwordFile: passwordFile, until: deadline)
        } catch {
            throw LedgerOpeningError(error, server: url.server)
        }
    }

    static func pooled(_ url: PostgreSQLURL) -> LedgerOpeningError {
        .cannotOpen(
            path: url.server,
            reason:
                "a connection pooler stands before the server, and could mix this session's settings and statements "
                + "with others': name the server itself.")
    }

    private func connect(until deadline: ContinuousClock.Instant) throws(LedgerOpeningError) -> PostgreSQLConnection {
        let connection = try Self.connection(to: url, parameters, passwordFile: passwordFile, until: deadline)
        do {
            let results = try connection.exchange([Self.facts, setting, Self.version], until: deadline)
            guard let facts = results.first?.rows.first, let found = try results.last?.rows.first?.integer(0) else {
                throw LedgerOpeningError.notALedger(path: url.server)
            }
            // A pooler has sessions of its own with the server, and hands out numbers of its own, by which it finds them.
            guard try facts.integer(6) == connection.serverProcess else { throw Self.pooled(url) }
            try PostgreSQLSchema.requireVersion(Int(found), url)
            let read = try Self.read(facts, connection)
            guard !requiresStandby || !read.insecureSettings.contains(.databaseSynchronousCommit) else {
                throw LedgerOpeningError.cannotOpen(
                    path: url.server,
                    reason:
                        "synchronous_commit is neither on nor remote_apply for the role \(read.role), and ledger.require_standby "
                        + "asks for commits that reach the standby's disk: reset it for the role, the database or the server."
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

    /// From the name of the log's file: the control file tells of a promotion only after the next checkpoint.
    static let timeline = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int::bigint"

    /// Before anything is set: what the role and the server have chosen.
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
        // `off` and `local` do not wait for a standby, `remote_write` waits for its memory only.
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
    /// The opening error for any error of opening the ledger on a server.
    init(of error: any Error, server: String) {
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
                path: server, reason: "its role lacks a privilege, which the account of the ledger's owner grants.")
        case .refused(let state, _) where state == .nodeIsMoving:
            self = .cannotOpen(
                path: server,
                reason:
                    "this node's former ledger, a file, is being moved into it, and that was not completed: repeat "
                    + "the move.")
        case .refused(let state, _) where !state.isPassing && state != .readOnly && state != .lockNotAvailable:
            self = .cannotOpen(path: server, reason: "PostgreSQL says \(state).")
        case .refused(let state, _): self = .unreachable(server: server, reason: "PostgreSQL says \(state).")
        case .lost, .late: self = .unreachable(server: server, reason: failure.failure.description)
        }
    }
}

/// One connection's place: made when it is needed and again when it was dropped. One thread at a time uses it.
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

    /// Gives the session up, whatever it is at; its end on the server is not waited for.
    func drop() {
        connection = nil
    }
}
