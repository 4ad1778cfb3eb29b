import Dispatch
import Foundation
public import PostgreSQLClient

/// Makes and upgrades the tables of a PostgreSQL ledger, with an owner's account: what `paytokenctl ledger create` does. The
/// daemon's own role cannot.
public enum PostgreSQLSchema {
    /// The version that this program makes and knows.
    public static let version = PostgreSQLTables.version

    /// The result of ``create(_:passwordFile:grantTo:connections:dryRun:timeout:)``.
    public struct Outcome: Sendable, Equatable {
        /// `db1:5432/paytokend`.
        public let server: String
        /// The owner's role.
        public let owner: String
        /// The version that was there; nil when there was none.
        public let found: Int?
        /// The version that is there now, or would be.
        public let version: Int
        /// The role that has the daemon's rights; nil when none was asked for.
        public let granted: String?
        public let insecureSettings: Set<InsecureLedgerSetting>
    }

    /// Makes the schema where there is none, brings an older one up to date, and grants a role the least that the daemon
    /// needs. All in one transaction: done, or nothing of it. An older schema is not upgraded while a daemon serves with it.
    ///
    /// - Parameters:
    ///   - url: with an account that may create a schema in the database, or owns the one there.
    ///   - role: an existing role; nil grants nothing.
    ///   - connections: the role's CONNECTION LIMIT; nil leaves it as it is.
    ///   - dryRun: looks only.
    ///   - timeout: of each wait for the server. An upgrade of large tables needs as much as it takes.
    public static func create(
        _ url: PostgreSQLURL, passwordFile: String? = nil, grantTo role: String? = nil, connections: Int? = nil,
        dryRun: Bool = false, timeout: Duration = .seconds(600)
    ) async throws(LedgerOpeningError) -> Outcome {
        try await onThread { () throws(LedgerOpeningError) in
            try blocking(url, passwordFile, role, connections, dryRun: dryRun, until: .now + timeout)
        }
    }

    private static func blocking(
        _ url: PostgreSQLURL, _ passwordFile: String?, _ role: String?, _ connections: Int?, dryRun: Bool,
        until deadline: ContinuousClock.Instant
    ) throws(LedgerOpeningError) -> Outcome {
        let parameters = PostgreSQLSessionRules.parameters(url, timeout: .seconds(30), application: "paytokenctl")
        let connection = try PostgreSQLSession.connection(
            to: url, parameters, passwordFile: passwordFile, until: deadline)
        let change = PostgreSQLSchemaChange(of: PostgreSQLTables.schema, on: connection, until: deadline)
        do {
            return try change.perform(isDryRun: dryRun) { try perform($0, connection, url, role, connections) }
        } catch is PostgreSQLSchemaChange.Warned {
            throw .unreachable(
                server: url.server,
                reason: "the server warned at the commit, so that it is not known to be safe; repeat it.")
        } catch let error as PostgreSQLSchemaChange.LimitNotPermitted {
            throw .cannotOpen(path: url.server, reason: error.reason)
        } catch PostgreSQLFailure.refused(.insufficientPrivilege, _) {
            throw .cannotOpen(
                path: url.server,
                reason:
                    "the account may not make a schema in this database, or does not own the one there: log in as the "
                    + "owner.")
        } catch PostgreSQLFailure.refused(.undefinedObject, _) where role != nil {
            throw .cannotOpen(
                path: url.server,
                reason: "there is no role of the name that is to be granted: make it first (createuser).")
        } catch {
            throw LedgerOpeningError(of: error, server: url.server)
        }
    }

    private static func perform(
        _ change: PostgreSQLSchemaChange, _ connection: PostgreSQLConnection, _ url: PostgreSQLURL, _ role: String?,
        _ connections: Int?
    ) throws -> Outcome {
        let schema = change.schema
        let facts = try change.run(
            """
            SELECT current_user::text, to_regnamespace('\(schema)') IS NOT NULL,
                to_regclass('\(schema).ledger_state') IS NOT NULL
            """)
        guard let facts = facts.first else { throw LedgerOpeningError.notALedger(path: url.server) }
        let owner = try facts.text(0)
        var found: Int?
        if try facts.boolean(2) {
            try requireOwner(change.run, url)
            found = try change.run("SELECT schema_version FROM \(schema).ledger_state FOR UPDATE").first.map {
                Int(try $0.integer(0))
            }
            guard let found, found > 0 else { throw LedgerOpeningError.notALedger(path: url.server) }
            guard found <= PostgreSQLTables.version else {
                throw LedgerOpeningError.newerSchema(
                    path: url.server, found: found, known: PostgreSQLTables.version)
            }
        } else if try facts.boolean(1) {
            // A schema of this name that is not ours is not written into.
            let isEmpty = try change.run(
                "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('\(schema)')")
            guard try isEmpty.first?.integer(0) == 0 else { throw LedgerOpeningError.notALedger(path: url.server) }
            try requireOwner(change.run, url)
        } else {
            _ = try change.run("CREATE SCHEMA \(schema)")
        }
        if let found, found < PostgreSQLTables.version { try requireNoServingNode(change.run, url) }
        try change.take(PostgreSQLTables.steps.dropFirst(found ?? 0))
        _ = try change.run(
            """
            INSERT INTO ledger_state (schema_version) VALUES ($1)
            ON CONFLICT (only_row) DO UPDATE SET schema_version = excluded.schema_version
            """, [.integer(Int64(PostgreSQLTables.version))])
        _ = try change.run(PostgreSQLTables.firstServer)
        if let role {
            try requireOrdinary(role, change, url)
            try change.grant(to: role, connections: connections, PostgreSQLTables.grants)
        }
        return Outcome(
            server: url.server, owner: owner, found: found, version: PostgreSQLTables.version, granted: role,
            insecureSettings: PostgreSQLURL.insecureSettings(of: connection.parameters))
    }

    /// Whoever owns the schema can drop its tables, so that must be nobody but the account that looks after it.
    static func requireVersion(_ found: Int, _ url: PostgreSQLURL) throws {
        let known = PostgreSQLTables.version
        guard found <= known else {
            throw LedgerOpeningError.newerSchema(path: url.server, found: found, known: known)
        }
        guard found == known else {
            throw LedgerOpeningError.olderSchema(server: url.server, found: found, known: known)
        }
    }

    static func requireOwner(
        _ run: (String, [PostgreSQLValue]) throws -> [PostgreSQLRow], _ url: PostgreSQLURL
    ) throws {
        let isOwner = try run(
            """
            SELECT nspowner = (SELECT oid FROM pg_roles WHERE rolname = current_user) FROM pg_namespace
            WHERE nspname = '\(PostgreSQLTables.schema)'
            """, [])
        guard try isOwner.first?.boolean(0) == true else {
            throw LedgerOpeningError.cannotOpen(
                path: url.server,
                reason:
                    "its schema \(PostgreSQLTables.schema) belongs to another role: log in as that one, or give it to this one."
            )
        }
    }

    /// A daemon that knows the older schema alone releases nothing once there is a newer one, and none that knows the newer one
    /// serves before. So whoever still holds a lease would be cut off.
    private static func requireNoServingNode(
        _ run: (String, [PostgreSQLValue]) throws -> [PostgreSQLRow], _ url: PostgreSQLURL
    ) throws {
        let nodes = try run(
            """
            SELECT name FROM \(PostgreSQLTables.schema).node WHERE lease_until >= clock_timestamp()
            ORDER BY name COLLATE "C" LIMIT 100
            """, []
        ).map { try $0.text(0) }
        guard nodes.isEmpty else { throw LedgerOpeningError.nodesServe(server: url.server, nodes: nodes) }
    }

    /// The daemon's role is bound by its grants: not everybody, no superuser, and none that can act as the owner.
    private static func requireOrdinary(
        _ role: String, _ change: PostgreSQLSchemaChange, _ url: PostgreSQLURL
    ) throws {
        guard try change.binds(role) else {
            throw LedgerOpeningError.cannotOpen(
                path: url.server,
                reason:
                    "the role to be granted is everybody, a superuser, or can act as the owner, so that its rights bind nothing: "
                    + "make one for the daemons alone (createuser).")
        }
    }
}
