import DatabaseKit
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
        } catch let refusal as PostgreSQLSchemaChange.Refusal {
            throw switch refusal {
            case .warned:
                .unreachable(
                    server: url.server,
                    reason: "the server warned at the commit, so that it is not known to be safe; repeat it.")
            case .notOurs: .notALedger(path: url.server)
            case .newer(let found): .newerSchema(path: url.server, found: found, known: version)
            case .cannot(let reason): .cannotOpen(path: url.server, reason: reason)
            }
        } catch {
            throw LedgerOpeningError(of: error, server: url.server)
        }
    }

    private static func perform(
        _ change: PostgreSQLSchemaChange, _ connection: PostgreSQLConnection, _ url: PostgreSQLURL, _ role: String?,
        _ connections: Int?
    ) throws -> Outcome {
        let (owner, found) = try change.make(versionIn: "ledger_state", PostgreSQLTables.steps) {
            try requireNoServingNode(change, url)
        }
        _ = try change.run(PostgreSQLTables.firstServer)
        if let role {
            try change.grant(to: role, connections: connections, for: "the daemons", PostgreSQLTables.grants)
        }
        return Outcome(
            server: url.server, owner: owner, found: found, version: PostgreSQLTables.version, granted: role,
            insecureSettings: PostgreSQLURL.insecureSettings(of: connection.parameters))
    }

    static func requireVersion(_ found: Int, _ url: PostgreSQLURL) throws {
        let known = PostgreSQLTables.version
        guard found <= known else {
            throw LedgerOpeningError.newerSchema(path: url.server, found: found, known: known)
        }
        guard found == known else {
            throw LedgerOpeningError.olderSchema(server: url.server, found: found, known: known)
        }
    }

    /// A daemon that knows the older schema alone releases nothing once there is a newer one, and none that knows the newer one
    /// serves before. So whoever still holds a lease would be cut off.
    private static func requireNoServingNode(
        _ change: PostgreSQLSchemaChange, _ url: PostgreSQLURL
    ) throws {
        let nodes = try change.run(
            """
            SELECT name FROM \(PostgreSQLTables.schema).node WHERE lease_until >= clock_timestamp()
            ORDER BY name COLLATE "C" LIMIT 100
            """
        ).map { try $0.text(0) }
        guard nodes.isEmpty else { throw LedgerOpeningError.nodesServe(server: url.server, nodes: nodes) }
    }
}
