import Foundation
import PostgreSQLClient

/// Opens sessions with the server that stores payments.
struct PostgreSQLPaymentSession: Sendable {
    private let hosts: PostgreSQLHosts
    private let timeout: Duration

    init(_ url: PostgreSQLURL, passwordFile: String?, timeout: Duration) {
        self.timeout = timeout
        hosts = PostgreSQLHosts(url, passwordFile: passwordFile, timeout: timeout, application: "paytoken-gateway")
    }

    /// Opens a session. Blocks until `deadline`, or longer if the resolver of host names does.
    func open(until deadline: ContinuousClock.Instant) throws(PaymentStoreOpeningError) -> PostgreSQLConnection {
        try openAndInspect(until: deadline).connection
    }

    func openAndInspect(
        until deadline: ContinuousClock.Instant
    ) throws(PaymentStoreOpeningError) -> (connection: PostgreSQLConnection, insecure: Set<InsecureStoreSetting>) {
        let place = hosts.url.server
        let connection = try Self.connection(to: hosts, until: deadline)
        do {
            let results = try connection.exchange(
                [Self.facts, PostgreSQLSessionRules.setting(schema: PostgreSQLPaymentTables.schema, settings)]
                    + [Self.synchronous, Self.version], until: deadline)
            guard let row = results[0].rows.first, let version = try results[3].rows.first?.integer(0) else {
                throw PaymentStoreOpeningError.notAStore(place: place)
            }
            // A connection pooler reports a process of its own, not the server's. It is refused because it mixes the
            // state of several clients in one session.
            guard try row.integer(0) == connection.serverProcess else {
                throw PaymentStoreOpeningError.cannotOpen(
                    place: place,
                    reason: "a connection pooler is in front of the server: name the server itself in store.url.")
            }
            let known = PostgreSQLPaymentTables.version
            guard version <= known else {
                throw PaymentStoreOpeningError.newerSchema(place: place, found: Int(version), known: known)
            }
            guard version == known else {
                throw PaymentStoreOpeningError.cannotOpen(
                    place: place, reason: "its schema is older: run \(Self.create) with the owner's account.")
            }
            // The version is checked first: this statement would fail on an older schema, which lacks some of its
            // columns and functions.
            let rights = try connection.exchange(
                [PostgreSQLStatement(PostgreSQLPaymentTables.rights)], until: deadline)
            guard try rights[0].rows.first?.boolean(0) == true else {
                throw PaymentStoreOpeningError.cannotOpen(
                    place: place,
                    reason: "its role lacks a right: run \(Self.create) --grant ROLE with the owner's account."
                )
            }
            var insecure: Set<InsecureStoreSetting> = []
            if try row.boolean(1) { insecure.insert(.databaseOwner) }
            if try row.text(2).isEmpty { insecure.insert(.databaseStandby) }
            if PostgreSQLSessionRules.hasUnverifiedServer(connection.parameters) { insecure.insert(.databaseTLS) }
            return (connection, insecure)
        } catch let error as PaymentStoreOpeningError {
            throw error
        } catch let error as PostgreSQLFailure {
            throw PaymentStoreOpeningError(error, place: place)
        } catch {
            throw .cannotOpen(place: place, reason: "this version does not know its tables.")
        }
    }

    static func connection(
        to hosts: PostgreSQLHosts, until deadline: ContinuousClock.Instant
    ) throws(PaymentStoreOpeningError) -> PostgreSQLConnection {
        do throws(PostgreSQLOpeningFailure) {
            return try hosts.connect(until: deadline)
        } catch {
            let place = hosts.url.server
            let reason = error.reason("store.url")
            throw error.isPassing
                ? .notNow(place: place, reason: reason) : .cannotOpen(place: place, reason: reason)
        }
    }

    static let create = "paytoken-gateway store create URL"

    /// The server's limits are shorter than the gateway's, so that most waits end with a response from the server.
    private var settings: [(name: String, value: String)] {
        let milliseconds = timeout / .milliseconds(1)
        return [
            ("lock_timeout", "\(Int(milliseconds / 2))"), ("statement_timeout", "\(Int(milliseconds * 0.8))"),
            ("idle_in_transaction_session_timeout", "\(Int(milliseconds * 2))"),
        ]
    }

    /// An acknowledged commit has reached the disk, and the standby's disk if one is named, regardless of the settings
    /// of the role or the database (`remote_write` waits only for the standby's memory). A stricter setting is kept.
    private static let synchronous = PostgreSQLStatement(
        """
        SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
        """)

    private static let version = PostgreSQLStatement(
        "SELECT schema_version FROM \(PostgreSQLPaymentTables.schema).payment_store")

    private static let facts = PostgreSQLStatement(
        """
        SELECT pg_backend_pid()::bigint,
            EXISTS (SELECT FROM pg_roles WHERE rolname = current_user AND rolsuper)
                OR EXISTS (SELECT FROM pg_namespace
                    WHERE nspname = '\(PostgreSQLPaymentTables.schema)' AND pg_has_role(nspowner, 'MEMBER')),
            current_setting('synchronous_standby_names')
        """)
}

extension PaymentStoreOpeningError {
    init(_ failure: PostgreSQLFailure, place: String) {
        switch failure {
        case .refused(let state, _) where [.undefinedTable, .invalidSchema, .undefinedFunction].contains(state):
            self = .cannotOpen(
                place: place,
                reason:
                    "it has no tables of payments: run \(PostgreSQLPaymentSession.create) --grant ROLE with the owner's account."
            )
        case .refused(let state, _) where state == .insufficientPrivilege:
            self = .cannotOpen(
                place: place,
                reason:
                    "its role lacks a right: run \(PostgreSQLPaymentSession.create) --grant ROLE with the owner's account."
            )
        case .refused(let state, _) where !state.isPassing && state != .readOnly && state != .lockNotAvailable:
            self = .cannotOpen(place: place, reason: failure.reason)
        case .refused, .lost, .late: self = .notNow(place: place, reason: failure.reason)
        }
    }
}
