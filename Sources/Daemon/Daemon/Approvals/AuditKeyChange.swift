import AuditChain
import FairShares
import Foundation
import Ledger
import Logging
import Refusals
import WorkerProtocol
import WorkerSupervision

/// Replaces the key in the HSM token that signs the checkpoints, which nobody does alone. What the former key signed stays
/// valid: an auditor then has both public keys.
struct AuditKeyChange: Sendable {
    enum Outcome: Sendable {
        case changed(from: CheckpointKey, to: CheckpointKey)
        /// It waits for a second person.
        case pending(Approval)
        /// A dry run found nothing against it.
        case wouldChange(from: CheckpointKey)
    }

    let ledger: any Ledger
    let hsmToken: any AuditHSMToken
    /// As the configuration names it.
    let hsmTokenName: String
    let checkpoints: Checkpoints
    let gate: LedgerGate
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock
    let logger: Logger
    /// Held during a change: of two at once the second finds what the first has done.
    private let lock = AsyncLock()

    /// An approval is for replacing this key, not one that has come since.
    static func parameters(from current: CheckpointKey) -> AuditDigest {
        var parameters = OperationParameters(.auditKeyChange)
        parameters.add(current.keyId.bytes)
        return parameters.digest
    }

    func change(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        try gate.admit()
        let current = try await keys().current
        guard !dryRun else { return .wouldChange(from: current) }
        guard rule.binds(caller) else {
            let next = try await carryOut(
                Self.parameters(from: current), AdministrativeChange(at: clock.now(), records: []), reason: reason,
                approval: nil, by: caller, draft: draft)
            return .changed(from: current, to: next)
        }
        return .pending(
            try await recorder.ask(
                await rule.request(
                    .auditKeyChange, parameters: Self.parameters(from: current), reason: reason, by: caller,
                    at: clock.now()), by: caller, for: draft))
    }

    /// Carries out what a second person approved, in one transaction with the approval.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) {
        try gate.admit()
        _ = try await carryOut(
            approval.parameters, decision, reason: approval.reason, approval: approval.identifier, by: caller,
            draft: draft)
    }

    /// The new key is planned in the ledger, made in the HSM token, announced in the record, which the former key seals, and put
    /// into service in one transaction with its audit record. So whoever knows the former key can tell that the new one is its
    /// successor. When it breaks off, the former key goes on signing and the next change takes up the planned key.
    private func carryOut(
        _ parameters: AuditDigest, _ decision: AdministrativeChange, reason: AuditReason,
        approval: ApprovalIdentifier?, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> CheckpointKey {
        await lock.acquire()
        defer { lock.release() }
        let (current, planned) = try await keys()
        guard Self.parameters(from: current) == parameters else {
            throw ApprovalConflict.otherParameters.refusal
        }
        let next = try await hsmToken.makeAuditKey(
            planned ?? AuditKeyIdentifier.random(of: ledger.node), plannedIn: ledger)
        var announcement = recorder.auditRecord(of: draft, by: caller)
        announcement.event = .auditKeyPrepare(from: current.keyId, to: next.checkpointKey.keyId)
        announcement.hsmToken = AuditText(hsmTokenName)
        try await recorder.append(announcement)
        // By the former key, with all that was recorded before.
        try await checkpoints.seal()

        var change = decision
        var auditRecord = recorder.auditRecord(of: draft, by: caller)
        auditRecord.event = .auditKeyChange(
            from: current.keyId, to: next.checkpointKey.keyId, reason: reason, approval: approval)
        auditRecord.hsmToken = AuditText(hsmTokenName)
        change.records.append(auditRecord)
        change.auditKey = StoredAuditKey(identifier: next.identifier, publicKey: next.publicPoint)
        try await recorder.apply(change, for: draft)
        try await use(next)
        return next.checkpointKey
    }

    /// The change is recorded by now. Whatever fails here is tried again by every later seal or start.
    private func use(_ key: AuditSigningKey) async throws(Refusal) {
        let newest = try await refusing(ledger: await ledger.latestCheckpoint())
        checkpoints.use(key, newest: newest, head: try await refusing(ledger: await ledger.head()))
        logger.notice("another audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.error("the change of audit key is not sealed yet", metadata: ["reason": "\(error.message)"])
        }
    }

    /// The key in service, and the identifier of one that was planned and never put into service.
    private func keys() async throws(Refusal) -> (current: CheckpointKey, planned: [UInt8]?) {
        let stored = try await refusing(ledger: await ledger.auditKeys())
        guard let point = stored.last(where: { $0.publicKey != nil })?.publicKey, let key = CheckpointKey(point: point)
        else { throw .defect }
        return (key, stored.last { $0.publicKey == nil }?.identifier)
    }
}
