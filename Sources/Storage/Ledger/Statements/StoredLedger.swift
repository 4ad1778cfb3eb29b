package import AuditChain
package import DatabaseKit
package import Foundation
package import MerchantKeys
package import PaymentToken

/// One node's chain in a database.
package protocol StoredChain: ChainReading {
    var records: RecordStatements { get }

    /// Runs a short read, on which a decision or a request depends.
    func read<Answer: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> Answer
    ) async throws(LedgerFailure) -> Answer

    /// Runs a read that may take long. It does not delay a ``read(_:)``.
    func search<Answer: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> Answer
    ) async throws(LedgerFailure) -> Answer
}

extension StoredChain {
    public func head() async throws(LedgerFailure) -> ChainHead { try await read { [records] in try records.head($0) } }

    public func lastArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await read { [records] in try records.lastArchive($0) }
    }

    public func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await search { [records] in try records.page(filter, order: order, after: cursor, limit: limit, $0) }
    }

    public func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await search { [records] in try records.extent(since: since, until: until, $0) }
    }

    public func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        try await search { [records] in try records.lines(sequences, limit: limit, $0) }
    }

    public func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [records] in
            try records.checkpoints("sequence < $2", limit ?? Int.max, order: "DESC", limit: 1, $0).first
        }
    }

    public func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [records] in try records.checkpoints("sequence >= $2", sequence, limit: 1, $0).first }
    }

    public func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await search { [records] in
            try records.checkpoints("sequence > $2", sequence, limit: min(max(limit, 1), 1000), $0)
        }
    }
}

/// The operations that both engines implement with the same statements.
package protocol StoredLedger: StoredChain, Ledger {
    var repeatFor: Duration { get }

    /// Runs one transaction, durable when the call returns.
    ///
    /// - Parameters:
    ///   - excludesReleases: true if no other node may release during the transaction, because the work changes data on
    ///     which releases depend.
    ///   - readBack: returns the answer if the write is found after an unacknowledged commit, and nil if not. An engine
    ///     that always knows a commit's outcome does not call it.
    func administer<Answer: Sendable>(
        excludingReleases excludesReleases: Bool, _ work: @escaping @Sendable (any LedgerTransaction) throws -> Answer,
        readBack: @escaping @Sendable (Answer, any StoredQueries) throws -> Answer?
    ) async throws(LedgerFailure) -> Answer
}

// Claims, keys and approvals.
extension StoredLedger {
    /// Runs a transaction without a read-back. If its commit is not acknowledged, the call may fail although the work
    /// was done. The work must therefore be safe to do again in the caller's next call.
    private func administer<Answer: Sendable>(
        _ work: @escaping @Sendable (any LedgerTransaction) throws -> Answer
    ) async throws(LedgerFailure) -> Answer {
        try await administer(excludingReleases: false, work, readBack: { _, _ in nil })
    }

    public func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUses] {
        try await search { queries in
            try queries.run(
                """
                SELECT public_key_hash, count(*), max(claimed_at) FROM claim
                WHERE claimed_at >= $1 GROUP BY public_key_hash
                UNION ALL
                SELECT public_key_hash, count(*), max(time) FROM audit_record
                WHERE event IN ('tls_signature', 'jwt_signature') AND outcome = 'ok' AND time >= $1 GROUP BY public_key_hash
                """, [.time(time)]
            ).reduce(into: [:]) { usage, row in
                usage[try row.publicKeyHash(0)] = KeyUses(count: Int(try row.integer(1)), last: try row.date(2))
            }
        }
    }

    public func lastUse(
        of key: PublicKeyHash, since time: Date, before end: Date?
    ) async throws(LedgerFailure) -> Date? {
        try await search { queries in
            try queries.lastClaim(of: key, since: time, before: end)
                ?? queries.run(
                    """
                    SELECT time FROM audit_record
                    WHERE event IN ('tls_signature', 'jwt_signature') AND outcome = 'ok' AND public_key_hash = $1 AND time >= $2
                        AND time < $3
                    ORDER BY time DESC LIMIT 1
                    """, [.bytes(key.bytes), .time(time), end.map { .time($0) } ?? .integer(.max)]
                ).first?.date(0)
        }
    }

    public func newestRelease() async throws(LedgerFailure) -> Date? {
        try await search { [records] in try records.newestRelease($0) }
    }

    public func newestConfirmedTime() async throws(LedgerFailure) -> Date? {
        // Pruning keeps the newest claim of Apple Pay, so no record is needed.
        try await search { try $0.number(ClaimRow.newestOfApplePay, [.integer(0)]).map(StoredTime.date) }
    }

    public func firstReleases(in sequences: ClosedRange<Int>) async throws(LedgerFailure) -> [UInt32: AuditTime] {
        try await search { [records] in try records.firstReleases(in: sequences, $0) }
    }

    public func keyRecords() async throws(LedgerFailure) -> [KeyRecord] { try await read { try KeyRecordRow.all($0) } }

    public func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord? {
        try await read { try KeyRecordRow.find(hash, $0) }
    }

    @discardableResult
    public func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        let changesReleases =
            change.key != nil || !change.furtherKeys.isEmpty || change.clock != nil || change.restore != nil
        return try await administer(
            excludingReleases: changesReleases, { try $0.perform(change) },
            readBack: { [records] lines, queries in try change.committedDecision(lines, records, queries) }
        ).map(\.sequence)
    }

    public func approvals(limit: Int) async throws(LedgerFailure) -> [Approval] {
        try await read { try ApprovalRow.all(limit: limit, $0) }
    }

    public func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval? {
        try await read { try ApprovalRow.find(identifier, $0) }
    }

    @discardableResult
    public func expireApprovals(now: Date) async throws(LedgerFailure) -> Int {
        var total = 0
        // Read first, since usually no approval has expired and a read is cheaper than a transaction.
        while try await !read({ try ApprovalRow.overdue(at: now, $0) }).isEmpty {
            total += try await administer { try $0.expireApprovals(at: now) }
        }
        return total
    }

    @discardableResult
    public func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int {
        guard try await read({ try ApprovalRow.hasSurplus(expiredBefore: time, keeping: count, $0) }) else { return 0 }
        return try await administer { try $0.forgetApprovals(expiredBefore: time, keeping: count) }
    }
}

extension AdministrativeChange {
    /// Returns the lines if the change is found in the ledger after an unacknowledged commit, and nil if not. A change
    /// with records was made if and only if its last record is stored. A change without records is found by its key's
    /// state and cut-off.
    fileprivate func committedDecision(
        _ lines: [AuditLine], _ records: RecordStatements, _ queries: any StoredQueries
    ) throws -> [AuditLine]? {
        if let last = lines.last { return try records.holds(last, queries) ? lines : nil }
        guard let key, let stored = try KeyRecordRow.find(key.publicKeyHash, queries), stored.state == key.state,
            stored.cutOff.map(StoredTime.milliseconds) == key.cutOff.map(StoredTime.milliseconds)
        else { return nil }
        return lines
    }
}

// Audit records of this node, and its audit keys.
extension StoredLedger {
    public func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {
        try await administer(
            excludingReleases: false, { try $0.insert(checkpoint) },
            readBack: { [records] _, queries in
                let sequence = checkpoint.checkpoint.sequence
                return try records.checkpoints("sequence = $2", sequence, limit: 1, queries).isEmpty ? nil : ()
            })
    }

    public func unsealedArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await read { [records] in try records.unsealedArchive($0) }
    }

    public func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int {
        try await administer { try $0.removeArchivedRecords(limit: limit) }
    }

    public func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey] {
        try await read { [records] in try records.auditKeys($0) }
    }

    public func planAuditKey(identifier: [UInt8], in hsmToken: String?) async throws(LedgerFailure) {
        try await administer(
            excludingReleases: false, { try $0.planAuditKey(identifier, in: hsmToken, at: Date()) },
            readBack: { [records] _, queries in try records.auditKey(identifier, queries) == nil ? nil : () })
    }

    public func update(auditKey identifier: [UInt8], foundIn hsmToken: String) async throws(LedgerFailure) {
        try await administer(
            excludingReleases: false, { try $0.update(auditKey: identifier, foundIn: hsmToken) },
            readBack: { [records] _, queries in
                try records.auditKey(identifier, queries)?.hsmToken == hsmToken ? () : nil
            })
    }

    @discardableResult
    public func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        try await administer(
            excludingReleases: false, { try $0.confirmAuditKey(identifier, publicKey, recording: record) },
            readBack: { [records] line, queries in
                guard try records.auditKey(identifier, queries)?.publicKey == publicKey else { return nil }
                if let line, try !records.holds(line, queries) { return nil }
                return .some(line)
            })?.sequence
    }
}

extension StoredQueries {
    /// Returns the time of the last payment that was released with the key; nil if there was none.
    ///
    /// - Parameter node: the node that released it; nil for any.
    func lastClaim(
        of key: PublicKeyHash, on node: String? = nil, since time: Date, before end: Date? = nil
    ) throws -> Date? {
        // Read the newest claims first, so that a key in use is found without reading older claims.
        try run(
            """
            SELECT claimed_at FROM claim
            WHERE claimed_at >= $1 AND claimed_at < $2 AND public_key_hash = $3\(node == nil ? "" : " AND node = $4")
            ORDER BY claimed_at DESC LIMIT 1
            """,
            [.time(time), end.map { .time($0) } ?? .integer(.max), .bytes(key.bytes)]
                + (node.map { [.text($0)] } ?? [])
        ).first?.date(0)
    }
}
