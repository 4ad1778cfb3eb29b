import AccessControl
package import AuditChain
package import DatabaseKit
package import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken

/// The operations of an engine's transaction that administrative changes need. The extension below makes all decisions,
/// so every engine decides in the same way.
package protocol LedgerTransaction: AnyObject, StoredQueries {
    var node: AuditNode { get }

    /// The clause at the end of a SELECT statement that locks its rows until the transaction ends; empty if the engine
    /// needs no row locks.
    static var rowLock: String { get }

    /// Appends a record to this node's chain in the transaction, and returns its line.
    func append(_ record: AuditRecord) throws -> AuditLine

    /// Removes ended approvals whose time to decide passed before `time`. Of the other ended approvals, it keeps only
    /// the `count` newest.
    ///
    /// - Returns: the number of removed approvals.
    func forgetApprovals(expiredBefore time: Date, keeping count: Int) throws -> Int

    /// - Returns: the number of removed records.
    func removeArchivedRecords(limit: Int) throws -> Int

    /// - Parameter sequence: the sequence of the archive's audit record, which this transaction contains.
    func store(_ archive: RecordArchive, recordedAs sequence: Int) throws

    /// Returns the earliest signing time, in milliseconds, from which payment tokens may be released after a clock was
    /// accepted. Nil if the engine requires no such limit.
    func earliestServedFrom() throws -> Int64?
    /// - Parameter sequence: the sequence of the acceptance's audit record. Earlier records no longer count for
    ///   ``LedgerTimes/newestRecord``.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int) throws

    /// Returns the fence for an acceptance at `now`, in milliseconds.
    ///
    /// - Throws: `windowOff`.
    func restoreFence(acceptedAt now: Date, newestRelease: Date?) throws -> Int64
    /// Carries out an acceptance: ends the holds, and sets the fence unless it is nil.
    ///
    /// - Parameter sequence: the sequence of the acceptance's audit record, which this transaction contains.
    func carryOut(_ restore: AdministrativeChange.Restore, fence: Int64?, recordedAs sequence: Int) throws
}

extension LedgerTransaction {
    private var records: RecordStatements { RecordStatements(node: node) }

    /// Makes every part of the change, and returns the lines of its audit records in order.
    package func perform(_ change: AdministrativeChange) throws -> [AuditLine] {
        let known = try change.key.flatMap { try KeyRecordRow.find($0.publicKeyHash, self) }
        if let step = change.approval { try take(step, at: change.at) }
        if let key = change.key { try put(key, over: known, change.precondition, at: change.at) }
        if let step = change.renewal { try take(step, at: change.at) }
        var fence: Int64?
        if case .accept(_, let newestRelease, _) = change.restore {
            fence = try restoreFence(acceptedAt: change.at, newestRelease: newestRelease)
        }
        var clock = change.clock
        if let planned = clock?.servedFrom, let earliest = try earliestServedFrom().map(StoredTime.date) {
            let forgotten = clock?.forgottenBefore ?? .distantFuture
            clock?.servedFrom = min(max(planned, earliest), forgotten)
        }
        let servedFrom = fence ?? clock?.servedFrom.map(StoredTime.milliseconds)
        var lines: [AuditLine] = []
        for record in change.records { lines.append(try append(record, before: known, servedFrom: servedFrom)) }
        for further in change.furtherKeys {
            let known = try KeyRecordRow.find(further.key.publicKeyHash, self)
            try put(further.key, over: known, further.precondition, at: change.at)
            lines.append(try append(further.record, before: known))
        }
        if let auditKey = change.auditKey, let publicKey = auditKey.publicKey {
            _ = try confirmAuditKey(auditKey.identifier, publicKey, recording: nil)
        }
        if let archive = change.archive { lines += try take(archive, at: change.at) }
        if let clock, let line = lines.last { try accept(clock, at: line.sequence) }
        if let restore = change.restore, let line = lines.last {
            try carryOut(restore, fence: fence, recordedAs: line.sequence)
        }
        return lines
    }

    private func put(
        _ key: KeyRecord, over known: KeyRecord?, _ precondition: KeyPrecondition, at now: Date
    ) throws {
        switch precondition {
        case .any: break
        case .absent:
            guard known == nil else { throw KeyRecordConflict.changedMeanwhile }
        case .state(let before):
            guard known?.state == before else { throw KeyRecordConflict.changedMeanwhile }
        }
        let next = try key.replacing(known)
        if let limit = next.use.maximumActive, next.state == .active, known?.state != .active {
            // A retired Google Pay key is tried with messages until its cut-off.
            let retired = next.use == .googlePay ? now : .distantFuture
            let others = try number(
                """
                SELECT count(*) FROM merchant_key WHERE merchant_identifier = $1 AND key_use = $2
                    AND public_key_hash <> $3 AND (state = 'active' OR state = 'deactivated' AND cut_off > $4)
                """,
                [
                    .text(next.merchantIdentifier), .text(next.use.name), .bytes(next.publicKeyHash.bytes),
                    .integer(StoredTime.milliseconds(retired)),
                ])
            guard others ?? 0 < limit else { throw KeyRecordConflict.tooManyActive(next.use) }
        }
        try run(KeyRecordRow.put, KeyRecordRow.values(next) + [.text(node.name)])
    }

    private func append(
        _ record: AuditRecord, before known: KeyRecord?, servedFrom: Int64? = nil
    ) throws -> AuditLine {
        var record = record
        if let servedFrom, case .ledgerAcceptRestore(var restore) = record.event {
            restore.servedFrom = AuditTime(StoredTime.date(servedFrom))
            record.event = .ledgerAcceptRestore(restore)
        }
        if let servedFrom, case .ledgerAcceptClock(var clock) = record.event {
            clock.servedFrom = AuditTime(StoredTime.date(servedFrom))
            record.event = .ledgerAcceptClock(clock)
        }
        if case .keyStateChange(var stateChange) = record.event {
            // Record the key's state in this transaction. It may differ from the state that the caller read earlier.
            stateChange.from = known.flatMap { AuditKeyState(rawValue: $0.state.rawValue) }
            record.event = .keyStateChange(stateChange)
        }
        return try append(record)
    }

    private func take(_ step: AdministrativeChange.ApprovalStep, at now: Date) throws {
        let identifier: ApprovalIdentifier
        switch step {
        case .request(let approval): return try request(approval, at: now)
        case .approve(let named, _, _), .reject(let named, _), .withdraw(let named, _), .use(let named, _, _):
            identifier = named
        }
        guard let approval = try ApprovalRow.find(identifier, lock: Self.rowLock, self) else {
            throw ApprovalConflict.unknown
        }
        let conflict = try approval.conflict(with: step, at: now, on: node.name) {
            try approval.key.flatMap { try KeyRecordRow.find($0, self)?.state }
        }
        if let conflict { throw conflict }
        switch step {
        case .request: break
        case .approve(_, let person, let executes):
            try decide(identifier, executes ? .done : .approved, by: person, at: now)
        case .reject(_, let person): try decide(identifier, .rejected, by: person, at: now)
        case .withdraw(_, let person): try decide(identifier, .withdrawn, by: person, at: now)
        case .use: try mark(identifier, .done)
        }
    }

    private func request(_ approval: Approval, at now: Date) throws {
        let open = try number(
            """
            SELECT count(*) FROM approval
            WHERE requester_uid = $1 AND node = $2 AND status IN ('pending', 'approved') AND expires_at > $3
            """, [.integer(Int64(approval.requester.uid)), .text(node.name), .time(now)])
        guard open ?? 0 < Approval.openLimit else { throw ApprovalConflict.tooMany(Approval.openLimit) }
        try run(
            "INSERT INTO approval (\(ApprovalRow.columns)) VALUES (\(ApprovalRow.places))",
            ApprovalRow.values(approval, node))
    }

    private func mark(_ identifier: ApprovalIdentifier, _ status: Approval.Status) throws {
        try run(
            "UPDATE approval SET status = $1 WHERE identifier = $2", [.text(status.rawValue), .bytes(identifier.bytes)])
    }

    private func decide(
        _ identifier: ApprovalIdentifier, _ status: Approval.Status, by person: PersonIdentities, at now: Date
    ) throws {
        try run(
            "UPDATE approval SET status = $1, decided_by = $2, decided_at = $3 WHERE identifier = $4",
            [.text(status.rawValue), .integer(Int64(person.uid)), .time(now), .bytes(identifier.bytes)])
    }

    /// Expires approvals that were not decided in time, and writes a record for each.
    ///
    /// - Returns: the number of expired approvals.
    func expireApprovals(at now: Date) throws -> Int {
        let overdue = try ApprovalRow.overdue(at: now, lock: Self.rowLock, self)
        for approval in overdue {
            try mark(approval.identifier, .expired)
            _ = try append(
                AuditRecord(
                    time: AuditTime(now),
                    event: .approvalDecision(approval: approval.identifier, decision: .expire, reason: nil),
                    outcome: .refused(.approvalInvalid),
                    publicKeyHash: approval.key.flatMap { AuditDigest(bytes: $0.bytes) }))
        }
        return overdue.count
    }

    func planAuditKey(_ identifier: [UInt8], in hsmToken: String?, at now: Date) throws {
        guard identifier.count == 16 else { throw LedgerFailure.auditKeyConflict }
        guard try records.auditKey(identifier, self) == nil else { return }
        try run(
            """
            INSERT INTO audit_key (node, ordinal, identifier, planned_at, hsm_token)
            VALUES ($1, (SELECT coalesce(max(ordinal), 0) + 1 FROM audit_key WHERE node = $1), $2, $3, $4)
            """, [.text(node.name), .bytes(identifier), .time(now), .text(hsmToken)])
    }

    func update(auditKey identifier: [UInt8], foundIn hsmToken: String) throws {
        try run(
            "UPDATE audit_key SET hsm_token = $1 WHERE node = $2 AND identifier = $3",
            [.text(hsmToken), .text(node.name), .bytes(identifier)])
    }

    /// - Returns: the record's line. Nil if `record` is nil, or if the key is already confirmed.
    func confirmAuditKey(
        _ identifier: [UInt8], _ publicKey: [UInt8], recording record: AuditRecord?
    ) throws -> AuditLine? {
        guard CheckpointKey(stored: publicKey) != nil, let known = try records.auditKey(identifier, self) else {
            throw LedgerFailure.auditKeyConflict
        }
        if let confirmed = known.publicKey {
            guard confirmed == publicKey else { throw LedgerFailure.auditKeyConflict }
            return nil
        }
        try run(
            "UPDATE audit_key SET public_key = $1 WHERE node = $2 AND identifier = $3",
            [.bytes(publicKey), .text(node.name), .bytes(identifier)])
        guard let record else { return nil }
        return try append(record)
    }

    package func insert(_ signed: SignedCheckpoint) throws {
        let checkpoint = signed.checkpoint
        guard checkpoint.node == node, try records.hash(of: checkpoint.sequence, self) == checkpoint.hash else {
            throw LedgerFailure.foreignCheckpoint
        }
        // If the ledger already has an audit checkpoint of this sequence, keep that one.
        try run(
            """
            INSERT INTO checkpoint (node, sequence, time, line) VALUES ($1, $2, $3, $4)
            ON CONFLICT (node, sequence) DO NOTHING
            """,
            [
                .text(node.name), .integer(checkpoint.sequence), .integer(checkpoint.time.milliseconds),
                .bytes(signed.line),
            ])
    }
}
