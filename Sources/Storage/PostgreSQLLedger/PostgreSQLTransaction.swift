import AccessControl
package import AuditChain
import DatabaseKit
package import Foundation
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
package import PostgreSQLClient

/// One transaction of this node, with the state that it read at its beginning and the statements that are sent with its
/// commit.
///
/// The transaction begins by locking the node's row, comparing its fencing number, and taking a shared lock on
/// `ledger_state`. The node's chain and the release limits thus cannot change until the commit. Records are collected
/// and inserted together with the commit.
package final class PostgreSQLTransaction: LedgerTransaction {
    let node: AuditNode
    let limits: ReleaseLimits
    /// True if nothing is released. Either a node has put releases on hold, or a live node has not yet compared its
    /// chain on this server with the head that it remembers.
    let isHeld: Bool
    /// True if a node has put releases on hold.
    let hasHold: Bool
    let fencingNumber: Int64
    /// The identifier of the last batch that this node has committed; nil before the first batch.
    let lastBatch: [UInt8]?
    let isStandbyNamed: Bool
    /// The server on which the transaction runs.
    let server: ServerIdentity?
    private(set) var head: ChainHead
    /// The end of the chain before the transaction.
    let start: ChainHead
    /// The greatest lead, in milliseconds, of a released payment token's signing time over this node's clock.
    private(set) var signedAhead: Int64
    private var records: [(line: AuditLine, record: AuditRecord)] = []
    private var closing: [PostgreSQLStatement] = []
    /// Statements that run after this transaction's records are inserted, each with the failure to throw if it returns
    /// false.
    private var finishing: [(statement: PostgreSQLStatement, failure: LedgerFailure)] = []
    private let connection: PostgreSQLConnection
    private let deadline: ContinuousClock.Instant

    /// The number of statements at the beginning of every batch, before those of the batch itself.
    static let beginning = 3

    /// - Parameters:
    ///   - excludesReleases: true to wait for all nodes' batches and keep new ones out until the commit.
    ///   - further: statements to send with the beginning.
    /// - Returns: the transaction, and the results of `further`.
    static func begin(
        _ lease: PostgreSQLNodeLease, _ node: AuditNode, _ connection: PostgreSQLConnection,
        excludesReleases: Bool = false, further: [PostgreSQLStatement] = [],
        until deadline: ContinuousClock.Instant
    ) throws -> (PostgreSQLTransaction, [PostgreSQLResult]) {
        var statements = [PostgreSQLStatement("BEGIN", prepared: "begin"), lease.lock]
        // Call `exclude_releases` before the shared row lock is taken. Upgrading that lock later could deadlock with
        // another node.
        if excludesReleases { statements.append(PostgreSQLStatement("SELECT exclude_releases()")) }
        let state = statements.count
        statements.append(Self.state(andHeadOf: node))
        let results = try connection.exchange(statements + further, until: deadline)
        let transaction = try PostgreSQLTransaction(
            lease, node, connection, deadline, row: results[1], state: results[state])
        return (transaction, Array(results.dropFirst(statements.count)))
    }

    /// Returns the statement that reads the chain's head and the row `ledger_state`. It runs after the node's row is
    /// locked, so the head stays valid until the commit, even if this statement waits long for `ledger_state`.
    private static func state(andHeadOf node: AuditNode) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT head.sequence, head.hash, schema_version, forgotten_before,
                current_setting('synchronous_standby_names') <> '', held_since IS NOT NULL, restore_fence,
                system_identifier, timeline
            FROM ledger_state LEFT JOIN LATERAL (\(RecordStatements.head)) AS head ON true
            FOR SHARE OF ledger_state
            """, [.text(node.name)], prepared: "state")
    }

    package static func head(of node: AuditNode) -> PostgreSQLStatement {
        PostgreSQLStatement(RecordStatements.head, [.text(node.name)], prepared: "head")
    }

    static func head(_ result: PostgreSQLResult, of node: AuditNode) throws -> ChainHead {
        try RecordStatements(node: node).head(result.rows.first)
    }

    private init(
        _ lease: PostgreSQLNodeLease, _ node: AuditNode, _ connection: PostgreSQLConnection,
        _ deadline: ContinuousClock.Instant, row: PostgreSQLResult, state result: PostgreSQLResult
    ) throws {
        guard let row = row.rows.first, try row.integer(0) == lease.fence else {
            let found = try row.rows.first?.integer(0) ?? 0
            lease.lost()
            // Fencing numbers only grow. A smaller number, or none, means that the database was restored to a state
            // before this daemon's start.
            guard found > lease.fence else {
                throw DatabaseRolledBack(
                    finding: LedgerHold.Finding(
                        kind: .rolledBack, ledgerSequence: try Self.head(result, of: node).sequence, remembered: nil))
            }
            throw PostgreSQLNodeLease.taken
        }
        guard let state = result.rows.first, try state.integer(2) == PostgreSQLTables.version else {
            throw LedgerFailure.unavailable(reason: "The ledger's schema was upgraded. Start the newer program.")
        }
        self.node = node
        self.connection = connection
        self.deadline = deadline
        lastBatch = try row.bytesIfAny(1)
        signedAhead = try row.integer(2)
        limits = ReleaseLimits(forgottenBefore: try state.integerIfAny(3), restoreFence: try state.integerIfAny(6))
        isStandbyNamed = try state.boolean(4)
        hasHold = try state.boolean(5)
        server = connection.facts.server
        isHeld =
            try hasHold || server == nil || state.textIfAny(7) != server?.systemIdentifier
            || state.integerIfAny(8) != server?.timeline
        fencingNumber = lease.fence
        start = try Self.head(result, of: node)
        head = start
    }

    /// Runs one statement in a round trip of its own and returns the rows.
    @discardableResult
    func exchange(_ sql: String, _ values: [PostgreSQLValue] = []) throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        try connection.exchange([PostgreSQLStatement(sql, values)], until: deadline)[0].rows
    }

    /// Adds a statement that is sent with the commit.
    func close(with statement: PostgreSQLStatement) {
        closing.append(statement)
    }

    /// Adds a statement that runs after the records are inserted, just before the commit. If the statement does not
    /// return true, ``finish()`` throws `failure`.
    func finish(with statement: PostgreSQLStatement, orElse failure: LedgerFailure) {
        finishing.append((statement, failure))
    }

    /// Inserts the records and runs the statements that ``finish(with:orElse:)`` has added, in a round trip before the
    /// commit's. Does nothing if no statement was added.
    func finish() throws {
        guard !finishing.isEmpty else { return }
        var statements = closing
        if !records.isEmpty { statements.append(Self.insertion(of: records, node)) }
        let results = try connection.exchange(statements + finishing.map(\.statement), until: deadline)
        (closing, records) = ([], [])
        for (result, finished) in zip(results.suffix(finishing.count), finishing) {
            guard try result.rows.first?.boolean(0) == true else { throw finished.failure }
        }
        finishing = []
    }

    func append(_ record: AuditRecord) -> AuditLine {
        let line = head.append(record)
        records.append((line, record))
        return line
    }

    func claimed(at time: Int64, signedAt signed: Int64) {
        // Do not store a lead of up to 30 seconds. Every claim is kept for at least a minute (`retain_claims`), and
        // pruning always allows for a lead of half that time.
        if signed - time > 30_000 { signedAhead = max(signedAhead, signed - time) }
    }

    /// Returns the statements to send before the commit: the insertion of the records, the lease's renewal, and those
    /// added by ``close(with:)``.
    func closing(_ lease: PostgreSQLNodeLease, batch: [UInt8]?) -> [PostgreSQLStatement] {
        let records = records.isEmpty ? nil : Self.insertion(of: records, node)
        return closing + [lease.renewal(batch: batch, signedAhead: signedAhead, after: records)]
    }

    /// The statement that inserts many records: the node, then an array for each column.
    package static let recordInsertion = """
        INSERT INTO audit_record (node, sequence, time, event, outcome, caller, caller_uid, merchant, public_key_hash,
            transaction_id, hash, line)
        SELECT $1, r.* FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[],
            $8::text[], $9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[]) AS r
        """

    private static func insertion(
        of records: [(line: AuditLine, record: AuditRecord)], _ node: AuditNode
    ) -> PostgreSQLStatement {
        PostgreSQLStatement(
            recordInsertion,
            [
                .text(node.name), .integers(records.map { Int64($0.line.sequence) }),
                .integers(records.map { $0.record.time.milliseconds }),
                .texts(records.map { $0.record.event.name.rawValue }), .texts(records.map { $0.record.outcome.text }),
                .texts(records.map { $0.record.caller?.name?.text }),
                .integers(records.map { $0.record.caller.map { Int64($0.uid) } }),
                .texts(records.map { $0.record.merchant?.text }),
                .byteStrings(records.map { $0.record.publicKeyHash?.bytes }),
                .byteStrings(records.map { $0.record.transactionId?.bytes }),
                .byteStrings(records.map { $0.line.hash.bytes }), .byteStrings(records.map { $0.line.bytes }),
            ], prepared: "records")
    }
}

// The reads and writes of administrative work.
extension PostgreSQLTransaction {
    package static let rowLock = "FOR UPDATE"

    @discardableResult
    func run(_ sql: String, _ values: [StoredValue]) throws -> [any StoredRow] {
        try connection.exchange([PostgreSQLStatement(sql, shared: values)], until: deadline)[0].rows
    }

    package func forgetApprovals(expiredBefore time: Date, keeping count: Int) throws -> Int {
        Int(try number("SELECT forget_approvals($1, $2)", [.time(time), .integer(count)]) ?? 0)
    }

    func removeArchivedRecords(limit: Int) throws -> Int {
        let removed = try number(
            "SELECT remove_archived($1, $2, $3)", [.text(node.name), .integer(fencingNumber), .integer(limit)])
        return Int(removed ?? 0)
    }

    package func store(_ archive: RecordArchive, recordedAs sequence: Int) throws {
        finish(
            with: PostgreSQLStatement(
                "SELECT put_archive($1, $2, $3, $4, $5, $6, $7, $8)",
                [
                    .text(node.name), .integer(fencingNumber), .integer(Int64(archive.first)),
                    .integer(Int64(archive.last)), .bytes(archive.hash.bytes), .bytes(archive.digest.bytes),
                    .integer(Int64(archive.size)), .integer(Int64(sequence)),
                ]), orElse: .archive(.unsealed))
    }

    package func earliestServedFrom() throws -> Int64? {
        try number("SELECT earliest_served()").map { ($0 + 60_999) / 1000 * 1000 }
    }

    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int) throws {
        let accepted = try exchange(
            "SELECT limit_forgotten($1, $2)",
            [
                .integer(change.forgottenBefore.map(StoredTime.milliseconds)),
                .integer(change.servedFrom.map(StoredTime.milliseconds)),
            ]
        ).first?.boolean(0)
        guard accepted == true else { throw LedgerFailure.timesConflict }
        try run(
            "UPDATE node SET clock_accepted_after = $1 WHERE name = $2",
            [.integer(sequence - 1), .text(node.name)])
    }
}
