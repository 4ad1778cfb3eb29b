import DatabaseKit
import Foundation
import Ledger
import Locks
import PostgreSQLClient

/// This daemon's lease of its node's name. The node's row contains a time until which no other daemon may take the
/// name, and a fencing number. Each daemon increments that number when it takes the name. Every batch locks the row and
/// compares the number. A batch under a name that another daemon has taken therefore never commits, however late it
/// arrives. All times are the server's.
///
/// An advisory lock would not suffice: it ends with its session, but a broken connection must not release the name.
final class PostgreSQLNodeLease: Sendable {
    private struct State {
        var renewed = ContinuousClock.now
        var isLost = false
    }

    let node: String
    let fence: Int64
    let duration: Duration
    private let state = Mutex(State())

    private init(node: String, fence: Int64, duration: Duration) {
        self.node = node
        self.fence = fence
        self.duration = duration
    }

    var status: NodeLeaseStatus {
        state.withLock { state in
            NodeLeaseStatus(
                fencingNumber: fence, age: state.renewed.duration(to: .now), isLost: state.isLost)
        }
    }

    func renewed() { state.withLock { $0.renewed = .now } }

    func lost() { state.withLock { $0.isLost = true } }

    static let taken = LedgerFailure.unavailable(
        reason: "Another daemon has taken this node's name, so this one no longer writes. Stop one of them.")

    /// Takes the name; blocks. If another daemon has it, waits until that daemon's lease ends. Throws `nodeInUse` if
    /// the lease is renewed in the meantime.
    static func take(
        _ settings: PostgreSQLLedger.Settings, _ connection: PostgreSQLConnection
    ) throws -> PostgreSQLNodeLease {
        let (node, server) = (settings.node, settings.url.server)
        let milliseconds = StoredTime.milliseconds(settings.lease)
        var seen: [UInt8]?
        while true {
            let results = try connection.exchange(
                statements(node, version: settings.version, milliseconds), until: .now + settings.timeout)
            guard !connection.hasWarned, results.last?.tag == "COMMIT" else {
                throw LedgerOpeningError.unreachable(
                    server: server, reason: "the standby does not acknowledge its commits.")
            }
            if let row = results[3].rows.first {
                return PostgreSQLNodeLease(node: node, fence: try row.integer(0), duration: settings.lease)
            }
            guard let row = results[4].rows.first else { throw LedgerOpeningError.notALedger(path: server) }
            // A renewal changes the lease's end, and a daemon that takes the name changes the fencing number.
            let mark = try row.bytes(1)
            guard seen == nil || seen == mark else { throw LedgerOpeningError.nodeInUse(node: node, server: server) }
            seen = mark
            let left = try row.integer(0)
            Thread.sleep(forTimeInterval: Double(min(max(left, 0) + 20, milliseconds)) / 1000)
        }
    }

    private static func statements(_ node: String, version: String, _ milliseconds: Int64) -> [PostgreSQLStatement] {
        [
            PostgreSQLStatement("BEGIN"), PostgreSQLStatement("SET LOCAL synchronous_commit = on"),
            PostgreSQLStatement(
                """
                INSERT INTO node (name, fence, lease_until, seen_at, version)
                VALUES ($1, 0, '-infinity', clock_timestamp(), $2) ON CONFLICT (name) DO NOTHING
                """, [.text(node), .text(version)]),
            PostgreSQLStatement(
                """
                UPDATE node SET fence = fence + 1, version = $2, seen_at = clock_timestamp(),
                    lease_until = clock_timestamp() + $3 * interval '1 millisecond'
                WHERE name = $1 AND lease_until < clock_timestamp() RETURNING fence
                """, [.text(node), .text(version), .integer(milliseconds)]),
            PostgreSQLStatement(
                """
                SELECT CASE WHEN isfinite(lease_until)
                        THEN ceil(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint ELSE 0 END,
                    convert_to(fence || ' ' || lease_until, 'UTF8')
                FROM node WHERE name = $1
                """, [.text(node)]),
            PostgreSQLStatement("COMMIT"),
        ]
    }

    /// Locks the node's row, so that later transactions under the node's name wait until this transaction ends. The
    /// statement also makes this transaction's commit wait for disk and standby, independently of the role's settings.
    var lock: PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT fence, last_batch, signed_ahead, set_config('synchronous_commit', 'on', true) FROM node
            WHERE name = $1 FOR NO KEY UPDATE
            """, [.text(node)], prepared: "node_lock")
    }

    /// Renews the lease.
    ///
    /// - Parameters:
    ///   - batch: the identifier of the renewing batch; nil to keep the identifier of the last committed batch.
    ///   - records: an insertion to combine with the renewal into one statement. A separate statement would cost about
    ///     as much in overhead as in work.
    func renewal(batch: [UInt8]?, signedAhead: Int64, after records: PostgreSQLStatement? = nil) -> PostgreSQLStatement
    {
        let first = (records?.values.count ?? 0) + 1
        let sql = """
            UPDATE node SET last_batch = coalesce($\(first + 2), last_batch),
                signed_ahead = greatest(signed_ahead, $\(first + 3)), seen_at = clock_timestamp(),
                lease_until = clock_timestamp() + $\(first + 4) * interval '1 millisecond'
            WHERE name = $\(first) AND fence = $\(first + 1)
            """
        let values: [PostgreSQLValue] = [
            .text(node), .integer(fence), .bytes(batch), .integer(signedAhead),
            .integer(StoredTime.milliseconds(duration)),
        ]
        guard let records else { return PostgreSQLStatement(sql, values, prepared: "node_renewal") }
        return PostgreSQLStatement(
            "WITH recorded AS (\(records.sql)) \(sql)", records.values + values, prepared: "records_and_node_renewal")
    }

    /// Ends the lease now, so that the next daemon with this name need not wait.
    var end: PostgreSQLStatement {
        PostgreSQLStatement(
            "UPDATE node SET lease_until = '-infinity' WHERE name = $1 AND fence = $2", [.text(node), .integer(fence)])
    }
}
