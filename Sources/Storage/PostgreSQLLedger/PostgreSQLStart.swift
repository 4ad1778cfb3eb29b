import Foundation
import Ledger
import PostgreSQLClient

// Checks at startup, before the daemon takes the node's name.
extension PostgreSQLLedger {
    /// Returns the daemon whose lease of the name has not ended; nil if the name is free.
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
