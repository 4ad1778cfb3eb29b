import AuditChain
import DatabaseKit
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import PostgreSQLClient
import PostgreSQLLedger
import SQLiteLedger

/// The database into which a file is moved, through one session of its owner; blocking.
///
/// The many records and claims are copied in transactions of a thousand rows, each of which is made once, however often
/// the move is interrupted. One transaction copies everything else and accepts the node. Before that transaction, no
/// daemon can take the node's name. After it, the file is no longer needed.
final class MoveDestination {
    /// The data that the database has about a node.
    struct StoredNode: Equatable {
        /// The sequence of the last copied record; 0 if there is none.
        var sequence: Int64 = 0
        var hash: [UInt8]?
        /// True if a daemon has a lease of the name.
        var isLeased = false
        /// True if there are audit keys or audit checkpoints.
        var hasKeys = false
        var move: Move?
    }

    /// The state of the move of a node's file, from the table `moved_ledger`.
    struct Move: Equatable {
        let run: Int64
        let isAccepted: Bool
        /// The last sequence of the file's chain when the database accepted the file; nil before.
        let sequence: Int64?
        let hash: [UInt8]?
    }

    let server: String
    /// The ledger's identity, which distinguishes it from others.
    let identity: String
    let insecureSettings: Set<InsecureLedgerSetting>
    private let connection: PostgreSQLConnection
    /// The number of this run among all runs of the move.
    private(set) var currentRun: Int64 = 0

    /// The maximum time that an exchange with the server may take.
    private static let responseTimeout = Duration.seconds(120)

    init(_ url: PostgreSQLURL, passwordFile: String?) throws(LedgerMoveError) {
        server = url.server
        do {
            let hosts = PostgreSQLHosts(
                url, passwordFile: passwordFile, timeout: .seconds(30), application: "paytokenctl")
            let session = PostgreSQLSession<PostgreSQLSchema>(
                hosts,
                settings: [
                    ("lock_timeout", "30s"), ("enable_seqscan", "off"),
                    // A stopped program must not prevent all nodes from releasing.
                    ("idle_in_transaction_session_timeout", "30s"),
                ])
            let connection = try session.connect(until: .now + .seconds(60))
            func run(_ sql: String) throws -> [PostgreSQLRow] {
                try connection.exchange([PostgreSQLStatement(sql)], until: .now + Self.responseTimeout)[0].rows
            }
            guard try run("SELECT \(PostgreSQLSchema.isOwner)").first?.boolean(0) == true else {
                throw LedgerOpeningError.cannotOpen(path: url.server, reason: PostgreSQLSchema.anotherOwner)
            }
            guard let row = try run("SELECT identity FROM ledger_state").first else {
                throw LedgerOpeningError.notALedger(path: url.server)
            }
            identity = try row.text(0)
            insecureSettings = connection.facts.isUnverified ? [.databaseTLS] : []
            self.connection = connection
        } catch PostgreSQLFailure.refused(.insufficientPrivilege, _) {
            throw .database(
                .cannotOpen(
                    path: url.server,
                    reason: "its schema \(PostgreSQLSchema.name) belongs to another role. Log in as that role."))
        } catch {
            throw .database(LedgerOpeningError(of: error, server: url.server))
        }
    }

    @discardableResult
    func exchange(_ statements: [PostgreSQLStatement]) throws(PostgreSQLFailure) -> [PostgreSQLResult] {
        try connection.exchange(statements, until: .now + Self.responseTimeout)
    }

    func rows(_ sql: String, _ values: [PostgreSQLValue] = []) throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        try exchange([PostgreSQLStatement(sql, values)])[0].rows
    }

    func storedNode(of node: AuditNode) throws -> StoredNode {
        let results = try exchange([
            PostgreSQLTransaction.head(of: node),
            PostgreSQLStatement(
                """
                SELECT EXISTS (SELECT FROM node WHERE name = $1 AND lease_until >= clock_timestamp()),
                    EXISTS (SELECT FROM audit_key WHERE node = $1) OR EXISTS (SELECT FROM checkpoint WHERE node = $1)
                """, [.text(node.name)]),
            PostgreSQLStatement(
                "SELECT run, accepted_at IS NOT NULL, last_sequence, last_hash FROM moved_ledger WHERE node = $1",
                [.text(node.name)]),
        ])
        var stored = StoredNode()
        if let row = results[0].rows.first {
            (stored.sequence, stored.hash) = (try row.integer(0), try row.bytes(1))
        }
        if let row = results[1].rows.first {
            (stored.isLeased, stored.hasKeys) = (try row.boolean(0), try row.boolean(1))
        }
        stored.move = try results[2].rows.first.map { row in
            Move(
                run: try row.integer(0), isAccepted: try row.boolean(1), sequence: try row.integerIfAny(2),
                hash: try row.bytesIfAny(3))
        }
        return stored
    }

    /// Records in the database that the node is being moved. From then on no daemon takes its name there.
    ///
    /// - Parameter check: checks the database's data on the node, which cannot change in the meantime.
    func begin(_ node: AuditNode, _ check: (StoredNode) throws -> Void) throws {
        // Taking a name changes the table, so with this lock no daemon can take the name unnoticed.
        try exchange([
            PostgreSQLStatement("BEGIN"), PostgreSQLStatement("LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE"),
        ])
        try check(try storedNode(of: node))
        let results = try exchange([
            PostgreSQLStatement(
                """
                INSERT INTO moved_ledger (node, run, begun_at) VALUES ($1, 1, present())
                ON CONFLICT (node) DO UPDATE SET run = moved_ledger.run + 1 RETURNING run
                """, [.text(node.name)]), PostgreSQLStatement("COMMIT"),
        ])
        guard let row = results[0].rows.first else { throw LedgerMoveError.overtaken(node: node.name) }
        currentRun = try row.integer(0)
    }

    /// Begins a transaction and locks the move's row. A later run of the move waits for the end of this transaction. If
    /// a later run has already begun, this one throws `overtaken`.
    ///
    /// - Parameter first: statements that run before the lock is taken.
    func enter(_ node: AuditNode, first: [PostgreSQLStatement] = []) throws {
        let lock = PostgreSQLStatement(
            "SELECT run FROM moved_ledger WHERE node = $1 AND accepted_at IS NULL FOR UPDATE", [.text(node.name)],
            prepared: "move")
        let results = try exchange([PostgreSQLStatement("BEGIN", prepared: "begin")] + first + [lock])
        guard try results.last?.rows.first?.integer(0) == currentRun else {
            throw LedgerMoveError.overtaken(node: node.name)
        }
    }

    func insert(_ records: [MovedRecord], of node: AuditNode) throws {
        try enter(node)
        try exchange([
            PostgreSQLStatement(
                PostgreSQLTransaction.recordInsertion,
                [
                    .text(node.name), .integers(records.map(\.sequence)), .integers(records.map(\.time)),
                    .texts(records.map(\.event)), .texts(records.map(\.outcome)), .texts(records.map(\.caller)),
                    .integers(records.map(\.callerUID)), .texts(records.map(\.merchant)),
                    .byteStrings(records.map(\.publicKeyHash)), .byteStrings(records.map(\.transaction)),
                    .byteStrings(records.map(\.hash)), .byteStrings(records.map(\.line)),
                ], prepared: "records"), PostgreSQLStatement("COMMIT", prepared: "commit"),
        ])
    }

    /// Inserts audit checkpoints. Existing ones stay as they are.
    func insert(_ checkpoints: [MovedCheckpoint], of node: AuditNode) throws {
        try enter(node)
        try exchange([
            PostgreSQLStatement(
                """
                INSERT INTO checkpoint (node, sequence, time, line)
                SELECT $1, c.* FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS c
                ON CONFLICT (node, sequence) DO NOTHING
                """,
                [
                    .text(node.name), .integers(checkpoints.map(\.sequence)), .integers(checkpoints.map(\.time)),
                    .byteStrings(checkpoints.map(\.line)),
                ], prepared: "checkpoints"),
            PostgreSQLStatement("COMMIT", prepared: "commit"),
        ])
    }

    /// Adds claims, sorted by transaction as in batches.
    ///
    /// If another node has already claimed a transaction, that node's row is kept, but its reference is removed. Such a
    /// transaction was released to two callers, or twice to one, so no caller may receive it again as a repeat. A row
    /// that already belongs to this node comes from an earlier run of the move, and is updated from the file.
    func insert(claims: [any StoredRow], of node: AuditNode) throws {
        func texts(_ column: Int) throws -> PostgreSQLValue { .texts(try claims.map { try $0.text(column) }) }
        func integers(_ column: Int) throws -> PostgreSQLValue {
            .integers(try claims.map { try $0.integerIfAny(column) })
        }
        func byteStrings(_ column: Int) throws -> PostgreSQLValue {
            .byteStrings(try claims.map { try $0.bytesIfAny(column) })
        }
        try enter(node)
        try exchange([
            PostgreSQLStatement(
                """
                INSERT INTO claim (node, transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt,
                    claimed_at, repeats, repeat_attempt, repeated_at, message_claim)
                SELECT $1, c.* FROM unnest($2::bytea[], $3::bytea[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[],
                    $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::bytea[]) AS c
                ON CONFLICT (transaction_id) DO UPDATE SET
                    reference_digest = CASE WHEN claim.node = $1 THEN excluded.reference_digest END,
                    repeats = greatest(claim.repeats, excluded.repeats),
                    repeat_attempt =
                        CASE WHEN claim.node = $1 THEN excluded.repeat_attempt ELSE claim.repeat_attempt END,
                    repeated_at = greatest(claim.repeated_at, excluded.repeated_at),
                    claimed_at = greatest(claim.claimed_at, excluded.claimed_at)
                """,
                [
                    .text(node.name), byteStrings(0), byteStrings(1), texts(2), byteStrings(3), byteStrings(4),
                    byteStrings(5),
                    integers(6), integers(7), byteStrings(8), integers(9), byteStrings(10),
                ], prepared: "claims"), PostgreSQLStatement("COMMIT", prepared: "commit"),
        ])
    }

    /// Returns the number of these transactions that another node has claimed.
    func claimed(_ claims: [any StoredRow], otherThan node: AuditNode) throws -> Int {
        let count = try rows(
            "SELECT count(*) FROM claim WHERE transaction_id = ANY ($1) AND node <> $2",
            [.byteStrings(try claims.map { try $0.bytes(0) }), .text(node.name)]
        ).first?.integer(0)
        return Int(count ?? 0)
    }

    /// Returns the database's key records by publicKeyHash, and the server's time.
    func keys() throws -> (records: [PublicKeyHash: KeyRecord], now: Date) {
        let results = try exchange([
            PostgreSQLStatement("SELECT \(KeyRecordRow.columns) FROM merchant_key"),
            PostgreSQLStatement("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"),
        ])
        let records = try results[0].rows.map { try KeyRecordRow.read($0) }
        guard let now = try results[1].rows.first?.date(0) else { throw LedgerOpeningError.notALedger(path: server) }
        return (Dictionary(records.map { ($0.publicKeyHash, $0) }, uniquingKeysWith: { first, _ in first }), now)
    }

    func limits() throws -> ReleaseLimits {
        guard let row = try rows("SELECT forgotten_before, restore_fence FROM ledger_state").first else {
            throw LedgerOpeningError.notALedger(path: server)
        }
        return ReleaseLimits(forgottenBefore: try row.integerIfAny(0), restoreFence: try row.integerIfAny(1))
    }

    /// Commits the current transaction. When this returns, the commit is known to be safe, also on the standby if one
    /// is named.
    ///
    /// - Throws: `brokenOff` if it is unknown whether the commit is safe; repeating the move finds out.
    func commit() throws(LedgerMoveError) {
        let results: [PostgreSQLResult]
        do throws(PostgreSQLFailure) {
            results = try exchange([PostgreSQLStatement("COMMIT", prepared: "commit")])
        } catch {
            throw .brokenOff(reason: "it is unknown whether the database has accepted the node. \(error.failure)")
        }
        guard results.last?.tag == "COMMIT", !connection.hasWarned else {
            throw .brokenOff(reason: "the server did not acknowledge the commit as required; check its standby.")
        }
    }
}
