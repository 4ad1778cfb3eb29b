import AccessControl
import AuditChain
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken

/// What administrative work reads and writes inside one transaction of an engine. What it decides stands in the extension, and is
/// the same for every engine.
protocol LedgerTransaction {
    var node: AuditNode { get }

    /// Makes the chain's next line and stores it with the transaction.
    mutating func append(_ record: AuditRecord) throws -> AuditLine

    func keyRecord(_ hash: PublicKeyHash) throws -> KeyRecord?
    func keyRecords() throws -> [KeyRecord]
    /// How many keys of that merchant and use are active.
    func activeKeys(of merchant: String, _ use: KeyUse) throws -> Int
    /// Adds it, or changes a known one's state and cut-off.
    func put(_ key: KeyRecord) throws

    func approval(_ identifier: ApprovalIdentifier) throws -> Approval?
    /// How many requests of an account of this node are open.
    func openApprovals(of uid: UInt32, at now: Date) throws -> Int
    /// At most 100 that are open and whose time has passed.
    func overdueApprovals(at now: Date) throws -> [Approval]
    func insert(_ approval: Approval) throws
    func mark(_ identifier: ApprovalIdentifier, _ status: Approval.Status) throws
    func decide(
        _ identifier: ApprovalIdentifier, _ status: Approval.Status, by person: PersonIdentities, at now: Date) throws

    func auditKey(_ identifier: [UInt8]) throws -> StoredAuditKey?
    /// Behind those that are there.
    func insertAuditKey(_ identifier: [UInt8], at now: Date) throws
    func setPublicKey(_ publicKey: [UInt8], of identifier: [UInt8]) throws

    /// The hash of this node's record of a sequence, of those stored before this transaction.
    func storedHash(of sequence: Int) throws -> AuditDigest?
    /// Does nothing when there is one for its sequence.
    func store(_ checkpoint: SignedCheckpoint) throws
    /// Whether one seals this node's record of a sequence.
    func hasCheckpoint(of sequence: Int) throws -> Bool

    /// The last record of this node's last archive, sealed or not; 0 when there is none.
    func lastArchivedRecord() throws -> Int
    /// - Parameter sequence: of the record of it, which is written with this transaction.
    func store(_ archive: RecordArchive, recordedAs sequence: Int) throws

    /// From when on payment tokens are served at the earliest after a clock was accepted, in milliseconds; nil where the daemon's own
    /// clock and windows decide alone.
    func earliestServed() throws -> Int64?
    /// - Parameter sequence: of the acceptance's own record, the first that counts for the newest time from then on.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int) throws

    /// The fence of an acceptance at `now`, in milliseconds.
    ///
    /// - Throws: `windowOff`.
    func restoreFence(acceptedAt now: Date, newestRelease: Date?) throws -> Int64
    /// Ends holds and sets the fence.
    ///
    /// - Parameter sequence: of the record of it, which is written with this transaction.
    func carryOut(_ restore: AdministrativeChange.Restore, fence: Int64?, recordedAs sequence: Int) throws
}

extension LedgerTransaction {
    /// The approval's step, the key's record and the records of both together.
    mutating func perform(_ change: AdministrativeChange) throws -> [AuditLine] {
        let known = try change.key.flatMap { try keyRecord($0.publicKeyHash) }
        if let step = change.approval { try take(step, at: change.at) }
        if let key = change.key { try put(key, over: known, change.precondition) }
        var fence: Int64?
        if case .accept(_, let newestRelease, _) = change.restore {
            fence = try restoreFence(acceptedAt: change.at, newestRelease: newestRelease)
        }
        var clock = change.clock
        if let planned = clock?.servedFrom, let earliest = try earliestServed().map(StoredTime.date) {
            let forgotten = clock?.forgottenBefore ?? .distantFuture
            clock?.servedFrom = min(max(planned, earliest), forgotten)
        }
        let servedFrom = fence ?? clock?.servedFrom.map(StoredTime.milliseconds)
        var lines: [AuditLine] = []
        for record in change.records { lines.append(try append(record, before: known, servedFrom: servedFrom)) }
        for further in change.furtherKeys {
            let known = try keyRecord(further.key.publicKeyHash)
            try put(further.key, over: known, further.precondition)
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

    private func put(_ key: KeyRecord, over known: KeyRecord?, _ precondition: KeyPrecondition) throws {
        switch precondition {
        case .any: break
        case .absent:
            guard known == nil else { throw KeyRecordConflict.changedMeanwhile }
        case .state(let before):
            guard known?.state == before else { throw KeyRecordConflict.changedMeanwhile }
        }
        let next = try key.replacing(known)
        if next.use == .identity, next.state == .active, known?.state != .active {
            guard try activeKeys(of: next.merchantIdentifier, .identity) < KeyRecord.mostActiveIdentities else {
                throw KeyRecordConflict.tooManyIdentities
            }
        }
        try put(next)
    }

    private mutating func append(
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
            // What the state really was, not what the caller saw a moment ago.
            stateChange.from = known.flatMap { AuditKeyState(rawValue: $0.state.rawValue) }
            record.event = .keyStateChange(stateChange)
        }
        return try append(record)
    }

    private func take(_ step: AdministrativeChange.ApprovalStep, at now: Date) throws {
        let identifier: ApprovalIdentifier
        switch step {
        case .request(let approval):
            guard try openApprovals(of: approval.requester.uid, at: now) < Approval.openLimit else {
                throw ApprovalConflict.tooMany(Approval.openLimit)
            }
            return try insert(approval)
        case .approve(let named, _, _), .reject(let named, _), .withdraw(let named, _), .use(let named, _, _):
            identifier = named
        }
        guard let approval = try approval(identifier) else { throw ApprovalConflict.unknown }
        let conflict = try approval.conflict(with: step, at: now, on: node.name) {
            try approval.key.flatMap { try keyRecord($0)?.state }
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

    /// Ends what was not decided in time, each with its record.
    ///
    /// - Returns: how many there were.
    mutating func expireApprovals(at now: Date) throws -> Int {
        let overdue = try overdueApprovals(at: now)
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

    func planAuditKey(_ identifier: [UInt8], at now: Date) throws {
        guard identifier.count == 16 else { throw LedgerFailure.auditKeyConflict }
        guard try auditKey(identifier) == nil else { return }
        try insertAuditKey(identifier, at: now)
    }

    /// - Returns: the record's line; nil without one, and when the key is confirmed already.
    mutating func confirmAuditKey(
        _ identifier: [UInt8], _ publicKey: [UInt8], recording record: AuditRecord?
    ) throws -> AuditLine? {
        guard CheckpointKey(point: publicKey) != nil, let known = try auditKey(identifier) else {
            throw LedgerFailure.auditKeyConflict
        }
        if let confirmed = known.publicKey {
            guard confirmed == publicKey else { throw LedgerFailure.auditKeyConflict }
            return nil
        }
        try setPublicKey(publicKey, of: identifier)
        guard let record else { return nil }
        return try append(record)
    }

    func insert(_ signed: SignedCheckpoint) throws {
        let checkpoint = signed.checkpoint
        guard checkpoint.node == node, try storedHash(of: checkpoint.sequence) == checkpoint.hash else {
            throw LedgerFailure.foreignCheckpoint
        }
        try store(signed)
    }
}
