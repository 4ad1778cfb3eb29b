public import AuditChain
import DatabaseKit
import Foundation
public import Ledger
import Locks
public import PaymentToken
import PostgreSQLClient

/// The error for a database whose chain differs from the one that this process has written. The database was restored,
/// or a standby that lacked data took over.
struct DatabaseRolledBack: Error {
    let finding: LedgerHold.Finding
}

/// The time at which this process first had a transaction on the present server.
final class FirstSight: Sendable {
    private let seen = Mutex<(server: ServerIdentity?, at: ContinuousClock.Instant)?>(nil)

    /// Returns the time since the first call with this server.
    func age(of server: ServerIdentity?) -> Duration {
        seen.withLock { seen in
            if let seen, seen.server == server { return seen.at.duration(to: .now) }
            seen = (server, .now)
            return .zero
        }
    }
}

// The ledger's holds, and the facts that each node stores for the others: the server on which it has compared its
// chain, its widest signing-time window, and its keys.
extension PostgreSQLLedger {
    public var isShared: Bool { true }

    public func releaseStatus() async throws(LedgerFailure) -> LedgerReleaseStatus {
        try await reader.read { [node] queries in
            let results = try queries.results([
                PostgreSQLStatement("SELECT \(HoldRow.columns) FROM hold ORDER BY node"),
                PostgreSQLStatement(
                    """
                    SELECT (s.system_identifier, s.timeline) IS DISTINCT FROM (h.system_identifier, h.timeline),
                        (n.system_identifier, n.timeline) IS NOT DISTINCT FROM (h.system_identifier, h.timeline),
                        (s.held_since IS NOT NULL) = EXISTS (SELECT FROM hold WHERE accepted_at IS NULL)
                    FROM ledger_state AS s CROSS JOIN this_server() AS h LEFT JOIN node AS n ON n.name = $1
                    """, [.text(node)]),
                PostgreSQLStatement(
                    """
                    SELECT n.name FROM node AS n CROSS JOIN this_server() AS h
                    WHERE (n.lease_until >= clock_timestamp() OR n.name = $1)
                        AND (n.system_identifier, n.timeline) IS DISTINCT FROM (h.system_identifier, h.timeline)
                    ORDER BY n.name
                    """, [.text(node)]),
                PostgreSQLStatement("SELECT name FROM node WHERE widest_window IS NULL ORDER BY name"),
            ])
            let holds = try results[0].rows.map(HoldRow.read)
            guard let row = results[1].rows.first else {
                throw LedgerFailure.unavailable(reason: "The ledger's state row is missing.")
            }
            var status = LedgerReleaseStatus()
            status.holds = holds.filter { $0.acceptedOn == nil }
            status.accepted = holds.first { $0.node == node && $0.acceptedOn != nil }
            status.isServerChanged = try row.boolean(0)
            status.hasCompared = try row.boolean(1)
            status.comparing = try results[2].rows.map { try $0.text(0) }
            status.unboundedNodes = try results[3].rows.map { try $0.text(0) }
            guard try row.boolean(2) else {
                throw LedgerFailure.unavailable(reason: "The ledger's holds and its state row disagree.")
            }
            return status
        }
    }

    public func hold(_ finding: LedgerHold.Finding) async throws(LedgerFailure) {
        try await writer.administer(excludingReleases: true) { [node] transaction in
            _ = try transaction.exchange("SELECT \(HoldRow.put)", HoldRow.values(finding, node: node))
        }
    }

    public func confirm(remembered: Checkpoint?) async throws(LedgerFailure) -> HeadComparison {
        try await writer.administer(excludingReleases: true) { [firstSight, lease = settings.lease] transaction in
            if let remembered {
                let comparison = try transaction.compare(with: remembered)
                guard comparison == .continues else { return comparison }
            }
            // The caller compares again, once a second, until the server counts as compared.
            let age = firstSight.age(of: transaction.server)
            guard try age >= lease || !transaction.awaitsNodes(age) else {
                return .continues
            }
            _ = try transaction.exchange("SELECT compare_server($1, $2)", transaction.holder)
            return .continues
        }
    }

    public func update(widestWindow: Duration?) async throws(LedgerFailure) {
        let window = widestWindow.map(StoredTime.milliseconds)
        try await writer.administer { [node] transaction in
            _ = try transaction.exchange(
                "UPDATE node SET widest_window = $1 WHERE name = $2", [.integer(window), .text(node)])
        }
    }

    public func update(heldKeys: Set<PublicKeyHash>) async throws(LedgerFailure) {
        try await writer.administer { transaction in
            _ = try transaction.exchange(
                "SELECT note_key_holder($1, $2, $3)", transaction.holder + [.byteStrings(heldKeys.map(\.bytes))])
        }
    }

    public func keyHolders() async throws(LedgerFailure) -> [PublicKeyHash: [KeyHolder]] {
        try await read { queries in
            let rows = try queries.run("SELECT public_key_hash, node, seen_at FROM key_holder ORDER BY node", [])
            return try rows.reduce(into: [:]) { holders, row in
                holders[try row.publicKeyHash(0), default: []].append(
                    KeyHolder(node: try row.text(1), seenAt: try row.date(2)))
            }
        }
    }
}

extension PostgreSQLTransaction {
    /// This node and its fencing number, as parameters for the schema's functions.
    var holder: [PostgreSQLValue] { [.text(node.name), .integer(fencingNumber)] }

    /// Returns true if a node took part until the server changed, did not return its lease, and has not been seen on
    /// this server, where its lease had already ended when this process first saw the server, `age` ago.
    ///
    /// A copy that is older than a lease has no live leases, nor has a server that was promoted later than that. A
    /// running daemon renews its lease with its first transaction on the server, and then `compare_server` waits for it.
    /// Without this check, the first daemon to connect would wait for no other, and could release what only another one
    /// remembers.
    func awaitsNodes(_ age: Duration) throws -> Bool {
        try exchange(
            """
            SELECT EXISTS (SELECT FROM node AS n CROSS JOIN ledger_state AS s CROSS JOIN this_server() AS h
                WHERE n.name <> $1 AND isfinite(n.lease_until)
                    AND n.lease_until < clock_timestamp() - $2 * interval '1 millisecond'
                    AND (n.system_identifier, n.timeline) IS NOT DISTINCT FROM (s.system_identifier, s.timeline)
                    AND (s.system_identifier, s.timeline) IS DISTINCT FROM (h.system_identifier, h.timeline))
            """, [.text(node.name), .integer(StoredTime.milliseconds(age))]
        ).first?.boolean(0) ?? false
    }

    /// Compares the chain with a remembered head as ``AuditTrail/compare(with:)`` does, but in this transaction and
    /// thus on the server that accepts writes.
    func compare(with remembered: Checkpoint) throws -> HeadComparison {
        guard remembered.node == node else { return .anotherNode }
        guard start.sequence >= remembered.sequence else { return .behind(last: start.sequence) }
        let stored = try RecordStatements(node: node).hash(of: remembered.sequence, self)
        return stored == remembered.hash ? .continues : .forked
    }

    /// Returns the fence according to the server's clock; `now`, from this host's clock, is ignored.
    func restoreFence(acceptedAt now: Date, newestRelease: Date?) throws -> Int64 {
        let row = try exchange(
            """
            SELECT floor(extract(epoch FROM transaction_timestamp()) * 1000)::bigint, max(widest_window),
                coalesce(array_to_string(array_agg(name ORDER BY name) FILTER (WHERE widest_window IS NULL), ' '), '')
            FROM node
            """
        ).first
        guard let row else { throw LedgerFailure.unavailable(reason: "The ledger returned no times.") }
        let unbounded = try row.text(2).split(separator: " ").map(String.init)
        guard unbounded.isEmpty, let window = try row.integerIfAny(1) else {
            throw LedgerFailure.windowOff(nodes: unbounded)
        }
        return ReleaseLimits.fence(
            acceptedAt: try row.date(0), newestRelease: newestRelease, widestWindow: .milliseconds(window))
    }

    func carryOut(_ restore: AdministrativeChange.Restore, fence: Int64?, recordedAs sequence: Int) throws {
        switch restore {
        case .accept(let holds, _, let approval):
            finish(
                with: PostgreSQLStatement(
                    "SELECT accept_restore($1, $2, $3, $4, $5, $6, $7)",
                    holder + [
                        .integer(Int64(sequence)), .bytes(approval?.bytes), .integer(fence),
                        .texts(holds.map(\.node)), .integers(holds.map { StoredTime.milliseconds($0.foundAt) }),
                    ]), orElse: .holdsConflict)
        case .endOwnHold:
            finish(
                with: PostgreSQLStatement(
                    "SELECT end_hold($1, $2, $3)", holder + [.integer(Int64(sequence))]),
                orElse: .holdsConflict)
        }
    }
}

enum HoldRow {
    static let columns = """
        node, kind, ledger_sequence, remembered_sequence, remembered_hash, remembered_at, key_id, found_at, accepted_on,
        accepted_at IS NOT NULL
        """

    static let put = "put_hold($1, $2, $3, $4, $5, $6, $7)"

    static func values(_ finding: LedgerHold.Finding, node: String) -> [PostgreSQLValue] {
        [
            .text(node), .text(finding.kind.rawValue), .integer(Int64(finding.ledgerSequence)),
            .integer(finding.remembered.map { Int64($0.sequence) }), .bytes(finding.remembered?.hash.bytes),
            .integer(finding.remembered?.time?.milliseconds), .bytes(finding.keyId?.bytes),
        ]
    }

    static func read(_ row: PostgreSQLRow) throws -> LedgerHold {
        guard let kind = LedgerHold.Kind(rawValue: try row.text(1)) else {
            throw LedgerFailure.unavailable(reason: "A node's finding has a value that this version does not know.")
        }
        var remembered: LedgerHold.RememberedEnd?
        if let sequence = try row.integerIfAny(3) {
            remembered = LedgerHold.RememberedEnd(
                sequence: Int(sequence), hash: try row.digest(4), time: try row.dateIfAny(5).map(AuditTime.init))
        }
        let keyId = try row.bytesIfAny(6).flatMap { AuditDigest(bytes: $0) }
        return LedgerHold(
            node: try row.text(0),
            finding: LedgerHold.Finding(
                kind: kind, ledgerSequence: Int(try row.integer(2)), remembered: remembered, keyId: keyId),
            foundAt: try row.date(7), acceptedOn: try row.boolean(9) ? try row.textIfAny(8) ?? "" : nil)
    }
}

// Each batch is compared with the last record that this process wrote. The HSM token alone would not suffice, since it
// knows only the last audit checkpoint, which may be a minute older.
extension PostgreSQLWriter {
    /// - Throws: ``DatabaseRolledBack`` if the database's chain differs from the one that this process has written.
    func checked(_ transaction: PostgreSQLTransaction) throws {
        guard let known = lastEnd.known, !lastEnd.permits(transaction.start) else { return }
        let found = transaction.start
        let remembered = LedgerHold.RememberedEnd(sequence: known.sequence, hash: known.hash, time: nil)
        if found.sequence < known.sequence {
            throw DatabaseRolledBack(
                finding: .init(kind: .rolledBack, ledgerSequence: found.sequence, remembered: remembered))
        }
        let records = RecordStatements(node: node)
        if known.sequence > 0, try records.hash(of: known.sequence, transaction) != known.hash {
            throw DatabaseRolledBack(
                finding: .init(kind: .forked, ledgerSequence: found.sequence, remembered: remembered))
        }
        // The database has all records that this process wrote, and further ones. The database was therefore not
        // restored: another program writes under this node's name.
        _ = try lastEnd.checked(found)
    }

    /// Puts all nodes on hold and continues from the database's chain. From then on this process writes only records,
    /// including the record of the hold's acceptance. If the hold cannot be written, every later batch tries again.
    ///
    /// If the database was restored to a state before this daemon's start, the daemon cannot write, and each of its
    /// batches detects the restore again. The hold is still written only once, since each hold must be accepted
    /// separately.
    func hold(_ finding: LedgerHold.Finding) -> LedgerFailure {
        let isFromBefore = lease.status.isLost
        let failure = LedgerFailure.unavailable(
            reason: "The database is older than what this daemon has written: \(finding.sentence)"
                + (isFromBefore
                    ? " It does not know of this daemon's start: restart the daemon before the ledger is accepted."
                    : ""))
        guard !isFromBefore || heldFor != finding else { return failure }
        guard let connection = try? session.current(until: .now + timeout) else { return failure }
        let results = try? connection.exchange(
            [
                PostgreSQLStatement("BEGIN"), PostgreSQLStatement("SET LOCAL synchronous_commit = on"),
                PostgreSQLStatement("SELECT \(HoldRow.put)", HoldRow.values(finding, node: node.name)),
                PostgreSQLTransaction.head(of: node), PostgreSQLStatement("COMMIT", prepared: "commit"),
            ], until: .now + timeout)
        guard let results, results.last?.tag == "COMMIT", !connection.hasWarned,
            let head = try? PostgreSQLTransaction.head(results[3], of: node)
        else {
            session.drop()
            return failure
        }
        lastEnd.set([head])
        heldFor = finding
        observe(.held(finding))
        return failure
    }
}
