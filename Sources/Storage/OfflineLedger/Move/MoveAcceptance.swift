import AuditChain
import DatabaseKit
import Foundation
import Ledger
import MerchantKeys
import PostgreSQLClient
import PostgreSQLLedger
import SQLiteLedger

// The transaction by which the database accepts a node, and the transactions before and after it.
extension MoveDestination {
    /// Copies everything except records and claims, which have already been copied: keys, approvals, ended renewals, audit
    /// keys, times, and the node itself. No node releases during this transaction, which is short because these rows are few.
    ///
    /// - Parameters:
    ///   - head: the end of the file's chain.
    ///   - version: this program's version, which status shows until the node's daemon has started.
    ///   - beforeCommit: called when everything except the commit is sent.
    func accept(
        _ file: MovedFile, head: ChainHead, version: String, beforeCommit: () throws -> Void
    ) throws -> [LedgerMoveReport.DifferingKey] {
        let node = file.node
        try enter(
            node,
            first: [
                PostgreSQLStatement("SET LOCAL synchronous_commit = on"),
                PostgreSQLStatement("SELECT exclude_releases()"),
            ])
        let stored = try storedNode(of: node)
        guard stored.sequence == Int64(head.sequence), stored.hash == (head.sequence > 0 ? head.hash.bytes : nil)
        else { throw LedgerMoveError.overtaken(node: node.name) }
        let merged = try merge(file.keys())
        try exchange(
            merged.records.map {
                PostgreSQLStatement(KeyRecordRow.put, shared: KeyRecordRow.values($0) + [.text(node.name)])
            })
        try exchange(try file.approvals().map(Self.put))
        try exchange(try file.renewals().flatMap { Self.put($0, of: node) })
        try exchange(try file.auditKeys().map { try Self.put(auditKey: $0, of: node) })
        try exchange(try file.archives().map { Self.put($0.archive, recordedAs: $0.recorded, of: node) })
        try put(file.times(), head, version, of: node)
        try beforeCommit()
        try commit()
        return merged.differing
    }

    /// Merges the file's keys with the database's, permitting only what both sides permit. `records` contains only the
    /// keys whose rows the database has to add or change.
    func merge(_ keys: [KeyRecord]) throws -> (records: [KeyRecord], differing: [LedgerMoveReport.DifferingKey]) {
        let (known, now) = try self.keys()
        var records: [KeyRecord] = []
        var differing: [LedgerMoveReport.DifferingKey] = []
        for key in keys {
            guard let other = known[key.publicKeyHash] else {
                records.append(key)
                continue
            }
            let next: KeyRecord
            do throws(KeyRecordConflict) {
                next = try other.stricter(with: key, at: now)
            } catch {
                throw LedgerMoveError.key(hash: key.publicKeyHash.hex, error)
            }
            if next != other { records.append(next) }
            if key.state != other.state || key.cutOff != other.cutOff {
                differing.append(
                    .init(
                        publicKeyHash: key.publicKeyHash, inFile: key.state, inDatabase: other.state,
                        becomes: next.state))
            }
        }
        return (records, differing)
    }

    /// Copies an approval unchanged: an open one can from then on be decided on any node; an ended one is only
    /// displayed.
    private static func put(_ approval: Approval) throws -> PostgreSQLStatement {
        guard let node = approval.node.flatMap(AuditNode.init) else {
            throw LedgerFailure.unavailable(reason: "An approval in the file names no node.")
        }
        return PostgreSQLStatement(
            """
            INSERT INTO approval (\(ApprovalRow.columns)) VALUES (\(ApprovalRow.places))
            ON CONFLICT (identifier) DO NOTHING
            """, shared: ApprovalRow.values(approval, node))
    }

    /// Copies a renewal with its attempts. An attempt is stored without its answer first, as by the daemon.
    private static func put(_ stored: StoredRenewal, of node: AuditNode) -> [PostgreSQLStatement] {
        var statements = [
            PostgreSQLStatement(
                "INSERT INTO renewal (\(RenewalRow.columns)) VALUES (\(RenewalRow.places))",
                shared: RenewalRow.values(stored, node)),
            PostgreSQLStatement(
                "UPDATE renewal SET ended_at = $2 WHERE identifier = $1",
                shared: [.bytes(stored.identifier.bytes), .time(stored.endedAt)]),
        ]
        for attempt in stored.attempts {
            statements.append(
                PostgreSQLStatement(
                    "INSERT INTO renewal_attempt (\(RenewalRow.attemptColumns)) VALUES (\(RenewalRow.attemptPlaces))",
                    shared: RenewalRow.values(attempt, of: stored.identifier, at: attempt.attempt.intendedAt, node)))
            statements.append(
                PostgreSQLStatement(
                    "UPDATE renewal_attempt SET outcome = $2, code = $3, answered_at = $4 WHERE identifier = $1",
                    shared: [
                        .bytes(attempt.identifier.bytes), .text(attempt.attempt.outcome.rawValue), .text(attempt.code),
                        .time(attempt.attempt.answeredAt),
                    ]))
        }
        return statements
    }

    private static func put(
        _ archive: RecordArchive, recordedAs sequence: Int64, of node: AuditNode
    ) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            INSERT INTO archive (node, first, last, hash, digest, size, recorded) VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .text(node.name), .integer(Int64(archive.first)), .integer(Int64(archive.last)),
                .bytes(archive.hash.bytes), .bytes(archive.digest.bytes), .integer(Int64(archive.size)),
                .integer(sequence),
            ])
    }

    private static func put(auditKey: any StoredRow, of node: AuditNode) throws -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            INSERT INTO audit_key (node, ordinal, identifier, public_key, planned_at, hsm_token)
            VALUES ($1, $2, $3, $4, $5, $6)
            """,
            [
                .text(node.name), .integer(try auditKey.integer(0)), .bytes(try auditKey.bytes(1)),
                .bytes(try auditKey.bytesIfAny(2)), .integer(try auditKey.integer(3)),
                .text(try auditKey.textIfAny(4)),
            ])
    }

    private func put(_ times: MovedTimes, _ head: ChainHead, _ version: String, of node: AuditNode) throws {
        let name = PostgreSQLValue.text(node.name)
        try exchange([
            PostgreSQLStatement(
                """
                UPDATE ledger_state SET forgotten_before = greatest(forgotten_before, $1),
                    restore_fence = greatest(restore_fence, $2)
                """, [.integer(times.limits.forgottenBefore), .integer(times.limits.restoreFence)]),
            PostgreSQLStatement(
                """
                UPDATE moved_ledger SET accepted_at = present(), last_sequence = $2, last_hash = $3 WHERE node = $1
                """, [name, .integer(Int64(head.sequence)), .bytes(head.hash.bytes)]),
            // The node's first daemon takes the name from this row, and then sets window and server.
            PostgreSQLStatement(
                """
                INSERT INTO node (name, fence, lease_until, seen_at, version, signed_ahead, clock_accepted_after)
                VALUES ($1, 0, '-infinity', clock_timestamp(), $2, $3, $4)
                ON CONFLICT (name) DO UPDATE SET signed_ahead = greatest(node.signed_ahead, excluded.signed_ahead),
                    clock_accepted_after = excluded.clock_accepted_after
                """,
                [name, .text(version), .integer(times.signedAhead), .integer(times.clockAcceptedAfter)]),
        ])
    }

    /// Confirms an acceptance with a further commit. An acceptance that is visible may not have reached the standby;
    /// once a later commit is acknowledged, it has.
    func confirm(_ node: AuditNode) throws {
        try exchange([
            PostgreSQLStatement("BEGIN"), PostgreSQLStatement("SET LOCAL synchronous_commit = on"),
            PostgreSQLStatement("UPDATE moved_ledger SET run = run + 1 WHERE node = $1", [.text(node.name)]),
        ])
        try commit()
    }

    /// Deletes the copied records of the node, unless the database has accepted it. Claims stay, since those
    /// transactions were released.
    ///
    /// - Parameter check: checks the database's data on the node.
    /// - Returns: false if the database has accepted the node.
    func forget(_ node: AuditNode, _ check: (StoredNode) throws -> Void) throws -> Bool {
        try exchange([PostgreSQLStatement("BEGIN"), PostgreSQLStatement("SET LOCAL synchronous_commit = on")])
        // This row lock waits for the acceptance of an interrupted run, whose session may still be committing.
        let row = try rows(
            "SELECT accepted_at IS NOT NULL FROM moved_ledger WHERE node = $1 FOR UPDATE", [.text(node.name)]
        ).first
        if try row?.boolean(0) == true {
            try exchange([PostgreSQLStatement("ROLLBACK")])
            return false
        }
        if row != nil {
            try check(try storedNode(of: node))
            try exchange(
                ["audit_record", "checkpoint", "moved_ledger"].map { table in
                    PostgreSQLStatement("DELETE FROM \(table) WHERE node = $1", [.text(node.name)])
                })
        }
        try commit()
        return true
    }
}
