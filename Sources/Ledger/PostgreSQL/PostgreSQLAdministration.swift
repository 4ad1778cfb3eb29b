public import AuditChain
public import Foundation
public import MerchantKeys
public import PaymentToken

// What people do to keys and approvals: each change is a transaction of its own.
extension PostgreSQLLedger {
    @discardableResult
    public func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        let changesReleases =
            change.key != nil || !change.furtherKeys.isEmpty || change.clock != nil || change.restore != nil
        return try await writer.administer(excludingReleases: changesReleases) { transaction in
            try transaction.perform(change)
        }.map(\.sequence)
    }

    public func keyRecords() async throws(LedgerFailure) -> [KeyRecord] {
        try await read { queries in
            try queries.rows("SELECT \(KeyRecordRow.columns) FROM merchant_key ORDER BY public_key_hash")
                .map(KeyRecordRow.read)
        }
    }

    public func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord? {
        try await read { queries in
            try queries.rows(
                "SELECT \(KeyRecordRow.columns) FROM merchant_key WHERE public_key_hash = $1", [.bytes(hash.bytes)]
            ).first.map(KeyRecordRow.read)
        }
    }

    public func approvals(limit: Int) async throws(LedgerFailure) -> [Approval] {
        try await read { queries in
            try queries.rows(
                """
                SELECT \(ApprovalRow.columns) FROM approval
                ORDER BY status IN ('pending', 'approved') DESC, requested_at DESC, identifier LIMIT $1
                """, [.integer(Int64(limit))]
            ).map(ApprovalRow.read)
        }
    }

    public func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval? {
        try await read { queries in
            try queries.rows(
                "SELECT \(ApprovalRow.columns) FROM approval WHERE identifier = $1", [.bytes(identifier.bytes)]
            ).first.map(ApprovalRow.read)
        }
    }

    public func expireApprovals(now: Date) async throws(LedgerFailure) -> Int {
        var total = 0
        // A look first: mostly there is nothing to write.
        while try await hasOverdueApprovals(now: now) {
            total += try await writer.administer { try $0.expireApprovals(at: now) }
        }
        return total
    }

    private func hasOverdueApprovals(now: Date) async throws(LedgerFailure) -> Bool {
        try await read { queries in
            try !queries.rows(
                "SELECT status FROM approval WHERE status IN ('pending', 'approved') AND expires_at <= $1 LIMIT 1",
                [.integer(StoredTime.milliseconds(now))]
            ).isEmpty
        }
    }

    public func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int {
        let expired = StoredTime.milliseconds(time)
        let isSurplus = try await read { queries in
            let row = try queries.rows(
                """
                SELECT count(*), count(*) FILTER (WHERE expires_at < $1) FROM approval
                WHERE status IN ('done', 'rejected', 'withdrawn', 'expired')
                """, [.integer(expired)]
            ).first
            guard let row else { return false }
            return try row.integer(1) > 0 || row.integer(0) > Int64(count)
        }
        guard isSurplus else { return 0 }
        return try await writer.administer { transaction in
            let removed = try transaction.run(
                "SELECT forget_approvals($1, $2)", [.integer(expired), .integer(Int64(count))])
            return Int(try removed.rows.first?.integer(0) ?? 0)
        }
    }
}

// Claims and the time.
extension PostgreSQLLedger {
    public func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUses] {
        try await search { [claims] in try claims.usage(since: StoredTime.milliseconds(time), $0) }
    }

    public func wasUsed(_ key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> Bool {
        try await search { [claims] in try claims.wasUsed(key, since: StoredTime.milliseconds(time), $0) }
    }

    public func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome {
        let plan = try await read { queries in
            let row = try queries.rows(
                """
                SELECT present(), (SELECT max(claimed_at) FROM claim), (SELECT min(claimed_at) FROM claim),
                    (SELECT max(signed_ahead) FROM node), (SELECT max(widest_window) FROM node)
                """
            ).first
            guard let row else { throw LedgerFailure.unavailable(reason: "The ledger gave no times.") }
            // By the server's clock, and by this host's where that is behind.
            return retention.covering(window: try row.integerIfAny(4) ?? 0).plan(
                now: min(now, try row.date(0)), newestClaim: try row.integerIfAny(1),
                oldestClaim: try row.integerIfAny(2),
                signedAhead: try row.integerIfAny(3) ?? 0)
        }
        return try await plan.carryOut { horizon, signed, limit throws(LedgerFailure) in
            try await writer.administer(excludingReleases: true) { transaction in
                let removed = try transaction.run(
                    "SELECT prune_claims($1, $2, $3)", [.integer(horizon), .integer(signed), .integer(Int64(limit))])
                return Int(try removed.rows.first?.integer(0) ?? 0)
            }
        }
    }

    public func times() async throws(LedgerFailure) -> LedgerTimes {
        try await read { [node] queries in
            let row = try queries.rows(
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

    public func newestRelease() async throws(LedgerFailure) -> Date? {
        try await search { [node] queries in
            let row = try queries.rows(
                """
                SELECT greatest(
                    (SELECT time FROM audit_record WHERE node = $1 AND event = 'decrypt' AND outcome = 'ok'
                    ORDER BY time DESC LIMIT 1),
                    (SELECT max(claimed_at) FROM claim))
                """, [.text(node)]
            ).first
            return try row?.dateIfAny(0)
        }
    }
}
