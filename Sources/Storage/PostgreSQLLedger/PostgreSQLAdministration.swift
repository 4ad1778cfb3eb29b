public import AuditChain
package import DatabaseKit
public import Foundation
public import Ledger

// Appends this node's audit records, runs administrative work, prunes claims, and reads the ``LedgerTimes``.
extension PostgreSQLLedger {
    public func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        // If the deadline passes during the commit and the record is then not found, the record counts as dropped.
        try await writer.write(lost: writer.writes.loss()) { .record(record, answer: $0) }.sequence
    }

    public func note(_ record: AuditRecord) { writer.note(record) }

    package func administer<Answer: Sendable>(
        excludingReleases excludesReleases: Bool, _ work: @escaping @Sendable (any LedgerTransaction) throws -> Answer,
        readBack: @escaping @Sendable (Answer, any StoredQueries) throws -> Answer?
    ) async throws(LedgerFailure) -> Answer {
        try await writer.administer(excludingReleases: excludesReleases, work)
    }

    public func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome {
        // In a ledger with few claims of Apple Pay, the search for the newest may read all claims of a day.
        let plan = try await search { queries in
            let row = try queries.run(
                """
                SELECT present(), (\(ClaimRow.oldest)), (SELECT max(signed_ahead) FROM node),
                    (SELECT max(widest_window) FROM node)
                """, []
            ).first
            guard let row else { throw LedgerFailure.unavailable(reason: "The ledger returned no times.") }
            // Use the earlier of the server's time and this host's. With a clock that is ahead, the ledger would
            // forget claims too early.
            return try retention.covering(window: try row.integerIfAny(3) ?? 0).plan(
                now: min(now, try row.date(0)), oldestClaim: try row.integerIfAny(1),
                signedAhead: try row.integerIfAny(2) ?? 0
            ) { try queries.number(ClaimRow.newestOfApplePay, [.integer($0)]) }
        }
        return try await plan.carryOut { horizon, signed, limit throws(LedgerFailure) in
            try await writer.administer(excludingReleases: true) { transaction in
                let removed = try transaction.number(
                    "SELECT prune_claims($1, $2, $3)", [.integer(horizon), .integer(signed), .integer(limit)])
                return Int(removed ?? 0)
            }
        }
    }

    public func times() async throws(LedgerFailure) -> LedgerTimes {
        try await read { [node] queries in
            let row = try queries.run(
                """
                SELECT s.forgotten_before, s.restore_fence,
                    (SELECT r.time FROM audit_record AS r WHERE r.node = n.name AND r.sequence + 0 > n.clock_accepted_after
                    ORDER BY r.time DESC LIMIT 1)
                FROM node AS n CROSS JOIN ledger_state AS s WHERE n.name = $1
                """, [.text(node)]
            ).first
            return LedgerTimes(
                newestRecord: try row?.dateIfAny(2), forgottenBefore: try row?.dateIfAny(0),
                restoreFence: try row?.dateIfAny(1))
        }
    }
}
