public import Foundation
import PostgreSQLClient

/// Who has a node's name, as far as the server tells.
public struct NodeNameHolder: Sendable, Equatable {
    public let node: String
    /// The daemon's version.
    public let version: String
    /// The address of its session; nil where it has none, or one on a socket of the server's host.
    public let address: String?
    /// Whether it has a session with the server.
    public let isConnected: Bool
    /// When its lease runs out unless it is renewed, by the server's clock.
    public let until: Date
}

// What a start looks at before it takes the node's name.
extension PostgreSQLLedger {
    /// - Throws: `cannotOpen`, with what to run, where the role lacks a right: otherwise releases alone would find that out.
    static func requireRights(_ connection: PostgreSQLConnection, server: String, timeout: Duration) throws {
        let row = try connection.exchange([PostgreSQLRight.missing], until: .now + timeout)[0].rows.first
        guard let missing = try row?.text(0) else { throw LedgerOpeningError.notALedger(path: server) }
        guard missing.isEmpty else { throw LedgerOpeningError.missingRights(server: server, missing: missing) }
    }

    /// Who has to be waited for; nil when the name is free.
    static func holder(
        of node: String, _ connection: PostgreSQLConnection, timeout: Duration
    ) throws -> NodeNameHolder? {
        let row = try connection.exchange(
            [
                PostgreSQLStatement(
                    """
                    SELECT n.version, floor(extract(epoch FROM n.lease_until) * 1000)::bigint, s.pid IS NOT NULL,
                        host(s.client_addr)
                    FROM node AS n LEFT JOIN pg_stat_activity AS s ON s.datname = current_database()
                        AND s.application_name = 'paytokend ' || n.name AND s.pid <> pg_backend_pid()
                    WHERE n.name = $1 AND isfinite(n.lease_until) AND n.lease_until >= clock_timestamp()
                    ORDER BY s.backend_start DESC NULLS LAST LIMIT 1
                    """, [.text(node)])
            ], until: .now + timeout)[0].rows.first
        return try row.map { row in
            NodeNameHolder(
                node: node, version: try row.text(0), address: try row.textIfAny(3), isConnected: try row.boolean(2),
                until: try row.date(1))
        }
    }
}
