import DatabaseKit
import Dispatch
import Foundation
public import Ledger
public import PostgreSQLClient

/// Creates and upgrades the tables of a PostgreSQL ledger, with the owner's account, for `paytokenctl ledger create`.
/// The daemon's role cannot do this.
public enum PostgreSQLSchema {
    /// The version that this program creates and supports.
    public static let version = PostgreSQLTables.version

    /// The result of ``create(_:passwordFile:grantTo:connections:dryRun:timeout:)``.
    public struct Outcome: Sendable, Equatable {
        /// The server's name, such as `db1:5432/paytokend`.
        public let server: String
        /// The owner's role.
        public let owner: String
        /// The previous version; nil if there was no schema.
        public let found: Int?
        /// The version after the call; after a dry run, the version that a call would lead to.
        public let version: Int
        /// The role that received the daemon's rights; nil if none was given.
        public let granted: String?
        public let insecureSettings: Set<InsecureLedgerSetting>
    }

    /// Creates a missing schema, upgrades an older one, and grants a role the minimal rights that the daemon needs, all
    /// in one transaction. An older schema is not upgraded while a daemon uses it.
    ///
    /// - Parameters:
    ///   - url: the server, with an account that may create a schema in the database or owns the existing one.
    ///   - role: an existing role; nil to grant nothing.
    ///   - connections: the role's CONNECTION LIMIT; nil to leave it unchanged.
    ///   - dryRun: true to check only.
    ///   - timeout: the time limit for the whole call. Upgrading large tables may take long.
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
        let hosts = PostgreSQLHosts(
            url, passwordFile: passwordFile, timeout: .seconds(30), application: "paytokenctl")
        let connection = try PostgreSQLSession.connection(to: hosts, until: deadline)
        let change = PostgreSQLSchemaChange(of: PostgreSQLTables.schema, on: connection, until: deadline)
        do {
            return try change.perform(isDryRun: dryRun) { try perform($0, connection, url, role, connections) }
        } catch let refusal as PostgreSQLSchemaChange.Refusal {
            throw switch refusal {
            case .warned:
                .unreachable(
                    server: url.server,
                    reason: "the server sent a warning at the commit, so it may not be safe. Repeat the command.")
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

    package static func requireVersion(_ found: Int, _ url: PostgreSQLURL) throws {
        let known = PostgreSQLTables.version
        guard found <= known else {
            throw LedgerOpeningError.newerSchema(path: url.server, found: found, known: known)
        }
        guard found == known else {
            throw LedgerOpeningError.olderSchema(server: url.server, found: found, known: known)
        }
    }

    /// Requires that no daemon holds a lease. A daemon that supports only the older schema releases nothing after the
    /// upgrade. A daemon that needs the newer schema does not serve before it. An upgrade would thus cut off every
    /// leased node.
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
