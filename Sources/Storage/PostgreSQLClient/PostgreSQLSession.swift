import DatabaseKit
import Dispatch
import Foundation
import Locks

/// The facts that a server reported when a session with it was opened.
package struct PostgreSQLSessionFacts: Sendable {
    package var host = ""
    package var database = ""
    package var role = ""
    package var serverVersion = ""
    /// False if the role, the database or the server sets `synchronous_commit` to a value with which a commit does not
    /// wait for the standby's disk: `off`, `local` or `remote_write`.
    package var reachesStandby = true
    package var isStandbyNamed = true
    /// True for a superuser, and for a role that can act as the owner of the store's schema.
    package var isOwner = false
    /// True if the session uses TCP without `sslmode=verify-full`.
    package var isUnverified = false
    /// The server's identity; nil if the store does not ask for it.
    package var server: ServerIdentity?

    package init() {}
}

/// A session with a store's server, which is opened when needed and reopened after it was dropped. Sendable because
/// only one thread at a time uses it; its owner ensures that.
///
/// Opening a session resolves names, which can block for as long as the resolver takes. Each attempt to open one
/// therefore runs on its own thread, and callers wait for the attempt until a deadline. There is one attempt at a time.
/// If an attempt succeeds after its caller's deadline, the next call uses the connection.
package final class PostgreSQLSession<Schema: StoreSchema>: @unchecked Sendable {
    private final class Attempt: Sendable {
        let ended = DispatchSemaphore(value: 0)
        let result = Mutex<Result<PostgreSQLConnection, any Error>?>(nil)
    }

    private let hosts: PostgreSQLHosts
    private let settings: [(name: String, value: String)]
    private let further: [PostgreSQLStatement]
    private let check: Check
    private var connection: PostgreSQLConnection?
    private var attempt: Attempt?

    /// The store's check of a new connection. It receives the connection, the results of the store's own statements,
    /// and the deadline of the check.
    package typealias Check =
        @Sendable (PostgreSQLConnection, [PostgreSQLResult], ContinuousClock.Instant) throws -> Void

    /// - Parameters:
    ///   - hosts: shared by a store's sessions, so that each of them first tries the host of the newest session.
    ///   - settings: the session's settings, in addition to those that all sessions have.
    ///   - further: the store's own statements. Each new connection sends them in the same round trip as the statements
    ///     that every store needs.
    ///   - check: called for each new connection, on the thread that opens the connection.
    package init(
        _ hosts: PostgreSQLHosts, settings: [(name: String, value: String)], further: [PostgreSQLStatement] = [],
        check: @escaping Check = { _, _, _ in }
    ) {
        self.hosts = hosts
        self.settings = settings
        self.further = further
        self.check = check
    }

    package var isConnected: Bool { connection != nil }

    /// Returns the connection, and opens one if there is none; blocks until `deadline` at most.
    package func open(until deadline: ContinuousClock.Instant) throws(Schema.OpeningError) -> PostgreSQLConnection {
        if let connection { return connection }
        do {
            let new = try awaitAttempt(until: deadline)
            connection = new
            return new
        } catch {
            throw Schema.OpeningError(of: error, server: hosts.url.server)
        }
    }

    /// Returns the connection as ``open(until:)`` does, for a store that has been opened before. Throws the store's
    /// error `unavailable` instead of an opening error.
    package func current(until deadline: ContinuousClock.Instant) throws(Schema.Failure) -> PostgreSQLConnection {
        do throws(Schema.OpeningError) { return try open(until: deadline) } catch {
            throw .unavailable(reason: error.description)
        }
    }

    private func awaitAttempt(until deadline: ContinuousClock.Instant) throws -> PostgreSQLConnection {
        let attempt = attempt ?? begin()
        self.attempt = attempt
        let left = max(0, StoredTime.milliseconds(ContinuousClock.now.duration(to: deadline)))
        guard attempt.ended.wait(timeout: .now() + .milliseconds(Int(left))) == .success,
            let result = attempt.result.withLock({ $0 })
        else { throw PostgreSQLOpeningFailure.late }
        self.attempt = nil
        return try result.get()
    }

    private func begin() -> Attempt {
        let attempt = Attempt()
        // Use a dedicated thread: all of libdispatch's few shared threads may be blocked, even in resolvers.
        Thread.detachNewThread { [self] in
            let result = Result { try connect(until: .now + hosts.timeout) }
            attempt.result.withLock { $0 = result }
            attempt.ended.signal()
        }
        return attempt
    }

    /// Makes a connection to a server, and checks that its tables have the version that this program supports. Blocks
    /// until `deadline` at most, or longer while the resolver blocks.
    ///
    /// - Throws: the client's own errors, and those of the store's check.
    package func connect(until deadline: ContinuousClock.Instant) throws -> PostgreSQLConnection {
        let connection = try hosts.connect(until: deadline)
        let statements = [
            PostgreSQLSessionRules.setting(schema: Schema.name, settings), Self.facts,
            PostgreSQLStatement("SELECT schema_version FROM \(Schema.name).\(Schema.versionTable)"),
        ]
        let results = try connection.exchange(statements + further, until: deadline)
        guard let facts = results[1].rows.first, let version = try results[2].rows.first?.integer(0) else {
            throw PostgreSQLRefusal.notOurs
        }
        // A connection pooler has its own sessions with the server, so the process ID that it reports differs from that
        // of the server's session.
        guard try facts.integer(0) == connection.serverProcess else {
            throw PostgreSQLRefusal.permanent(
                reason:
                    "a connection pooler between this program and the server could mix this session's settings and statements "
                    + "with those of others. Name the server itself.")
        }
        guard version <= Schema.version else { throw PostgreSQLRefusal.newer(found: Int(version)) }
        guard version == Schema.version else { throw PostgreSQLRefusal.older(found: Int(version)) }
        try connection.note(facts)
        try check(connection, Array(results.dropFirst(statements.count)), deadline)
        return connection
    }

    private static var facts: PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT pg_backend_pid()::bigint, current_user::text, current_setting('server_version'),
                current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
                EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper)
                    OR EXISTS (SELECT FROM pg_namespace
                        WHERE nspname = '\(Schema.name)' AND pg_has_role(nspowner, 'MEMBER'))
            """)
    }

    /// Runs `body`. If the session has ended, for example because the server was restarted, `body` is called once more
    /// with a new connection. `body` must therefore be idempotent.
    package func reading<Value>(
        until deadline: ContinuousClock.Instant, _ body: (PostgreSQLConnection) throws -> Value
    ) throws -> Value {
        // A connection that an earlier call opened, or began to open, may have ended unnoticed before this call. Its
        // loss therefore permits one repetition.
        let isOld = connection != nil || attempt != nil
        do { return try body(current(until: deadline)) } catch let failure as PostgreSQLFailure {
            switch failure {
            case .refused(let state, _): if state.endsUse { drop() }
            case .late: drop()
            case .lost:
                drop()
                if isOld { return try reading(until: deadline, body) }
            }
            throw failure
        }
    }

    /// Ends the session's transaction, if there is one, and drops the session if that fails.
    package func rollBack(until deadline: ContinuousClock.Instant) {
        guard let connection else { return }
        let statement = PostgreSQLStatement("ROLLBACK", prepared: "rollback")
        do { _ = try connection.exchange([statement], until: deadline) } catch { drop() }
    }

    /// Closes the connection in any state, without waiting until the server has ended the session.
    package func drop() { connection = nil }
}

extension SQLState {
    /// True if another session may succeed after this refusal: the server of the refused session has a temporary
    /// problem, or is no longer the primary.
    package var endsUse: Bool { isTransient || self == .readOnly }
}

extension PostgreSQLConnection {
    fileprivate func note(_ row: PostgreSQLRow) throws {
        facts.host = host
        facts.database = database
        facts.role = try row.text(1)
        facts.serverVersion = try row.text(2)
        facts.reachesStandby = ["on", "remote_apply"].contains(try row.text(3))
        facts.isStandbyNamed = try !row.text(4).isEmpty
        facts.isOwner = try row.boolean(5)
        facts.isUnverified = PostgreSQLSessionRules.hasUnverifiedServer(parameters)
    }
}
