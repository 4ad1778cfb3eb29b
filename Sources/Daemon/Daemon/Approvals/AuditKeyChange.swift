import AuditChain
import DaemonConfiguration
import FairShares
import Foundation
import Ledger
import Logging
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Replaces the audit key, with which an HSM token signs the audit checkpoints. A second person must approve. The
/// former key's signatures stay valid, so an auditor needs both public keys. If the new key is in another HSM token,
/// that HSM token seals the record after the change.
struct AuditKeyChange: Sendable {
    enum Outcome: Sendable {
        case changed(from: CheckpointKey, to: CheckpointKey)
        /// The change waits until a second person approves it.
        case pending(Approval)
        /// The dry run found no reason to refuse the change.
        case wouldChange(from: CheckpointKey)
    }

    /// An HSM token in which the next audit key can be made.
    struct Successor: Sendable {
        let hsmToken: any AuditHSMToken
        /// True if the present audit key is lost. A lost key cannot seal the announcement of the new key.
        let replacesLostKey: Bool
    }

    let ledger: any Ledger
    let sealing: SealingHSMToken
    let checkpoints: Checkpoints
    let gate: LedgerGate
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock
    let logger: Logger
    /// Allows one change at a time. The second of two concurrent changes thus sees the result of the first.
    private let lock = AsyncLock()

    /// Returns the digest that an approval covers. The digest includes the present audit key. Otherwise the approval
    /// could be used to replace a later key.
    ///
    /// - Parameters:
    ///   - other: the name of the HSM token that is to seal instead of the present one; nil if the present one
    ///     continues to seal.
    ///   - loss: the findings in the ledger that the change of a lost key accepts; nil if the present key is not lost.
    static func parameters(from current: CheckpointKey, to other: String?, after loss: DetectedRestore?) -> AuditDigest
    {
        var parameters = OperationParameters(.auditKeyChange)
        parameters.add(current.keyId.bytes)
        if let loss {
            parameters.add(other)
            parameters.add("lost")
            parameters.add(loss.parameters.bytes)
        } else if let other {
            parameters.add(other)
        }
        return parameters.digest
    }

    /// - Parameters:
    ///   - name: the name of the HSM token that seals after the change; nil for the HSM token that seals now.
    ///   - isLost: true if the present audit key is lost for good (``requireLoss(of:)``).
    func change(
        to name: String? = nil, isLost: Bool = false, reason: AuditReason, by caller: Caller, dryRun: Bool,
        draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        if !isLost { try gate.admit() }
        let stored = try await storedKeys()
        let current = stored.current
        if isLost { try await requireLoss(of: stored.inService) }
        let loss = try await isLost ? gate.restoreAfterLoss() : nil
        guard name == nil || sealing.all.contains(where: { $0.name == name }) else {
            throw Refusal(.malformedRequest, "The configuration has no HSM token of that name.", details: "token")
        }
        let parameters = Self.parameters(from: current, to: name == sealing.name ? nil : name, after: loss)
        guard !dryRun else { return .wouldChange(from: current) }
        guard rule.needsSecondPerson(caller) else {
            let next = try await carryOut(
                parameters, AdministrativeChange(at: clock.now(), records: []), reason: reason, approval: nil,
                by: caller, draft: draft)
            return .changed(from: current, to: next)
        }
        return .pending(
            try await recorder.ask(
                await rule.request(
                    .auditKeyChange, parameters: parameters, reason: reason, by: caller, at: clock.now()), by: caller,
                for: draft))
    }

    /// Returns the HSM tokens in which the next audit key can be made. The dictionary's key is the digest
    /// (``parameters(from:to:after:)``) that an approval of the change to that HSM token covers.
    func successors() async throws(Refusal) -> [AuditDigest: Successor] {
        let current = try await storedKeys().current
        let loss = try await gate.restoreAfterLoss()
        var successors: [AuditDigest: Successor] = [:]
        for hsmToken in sealing.all {
            let other = hsmToken.name == sealing.name ? nil : hsmToken.name
            for loss in [nil, loss] {
                successors[Self.parameters(from: current, to: other, after: loss)] = Successor(
                    hsmToken: hsmToken, replacesLostKey: loss != nil)
            }
        }
        return successors
    }

    /// Carries out an approved change, in one transaction with the approval.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) {
        _ = try await carryOut(
            approval.parameters, decision, reason: approval.reason, approval: approval.identifier, by: caller,
            draft: draft)
    }

    /// Replaces the audit key. First the ledger stores the identifier of a planned key, and the HSM token generates the
    /// key with this identifier. The record announces the new key, and the former key seals that announcement. Then one
    /// transaction puts the new key into service and records the change.
    ///
    /// An auditor who has the former key can therefore verify that the new one is its successor. If an interruption ends
    /// these steps early, the former key continues to sign, and the next change uses the planned key.
    ///
    /// If the former key is lost, the new key is not announced. The record of the change says that the former key is
    /// lost (``AuditEvent/auditKeyChange``).
    private func carryOut(
        _ parameters: AuditDigest, _ decision: AdministrativeChange, reason: AuditReason,
        approval: ApprovalIdentifier?, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> CheckpointKey {
        await lock.acquire()
        defer { lock.release() }
        guard let successor = try await successors()[parameters] else { throw ApprovalConflict.otherParameters.refusal }
        let (hsmToken, isLost) = (successor.hsmToken, successor.replacesLostKey)
        // This lock excludes comparisons of the ledger with the HSM token. A concurrent comparison could put the former
        // key into service again after the change.
        if isLost { await gate.comparisons.acquire() }
        defer { if isLost { gate.comparisons.release() } }
        let (current, inService, unused) = try await storedKeys()
        if isLost { try await requireLoss(of: inService) } else { try gate.admit() }
        // Earlier versions stored a planned key without the name of its HSM token. Such a key is treated as planned for
        // the HSM token that seals.
        let planned = unused.last { $0.hsmToken ?? sealing.name == hsmToken.name }?.identifier
        let next = try await hsmToken.makeAuditKey(
            planned ?? AuditKeyIdentifier.newIdentifier(for: ledger.node), plannedIn: ledger)
        if !isLost {
            var announcement = recorder.auditRecord(of: draft, by: caller)
            announcement.event = .auditKeyPrepare(from: current.keyId, to: next.checkpointKey.keyId)
            announcement.hsmToken = AuditText(hsmToken.name)
            try await recorder.append(announcement)
            // The former key seals the announcement and all records before it.
            try await checkpoints.seal()
        }
        var change = decision
        var auditRecord = recorder.auditRecord(of: draft, by: caller)
        auditRecord.event = .auditKeyChange(
            from: current.keyId, to: next.checkpointKey.keyId, reason: reason, approval: approval,
            isFormerKeyLost: isLost)
        auditRecord.hsmToken = AuditText(hsmToken.name)
        change.records.append(auditRecord)
        change.auditKey = StoredAuditKey(
            identifier: next.identifier, publicKey: next.publicKey, hsmToken: hsmToken.name)
        let accepts = isLost && gate.position != .open
        if accepts {
            try await gate.requireBoundedWindows()
            try await gate.addAcceptance(
                of: gate.restoreAfterLoss(), reason: reason, by: caller.map(AuditCaller.init), approval: approval,
                to: &change)
        }
        try await recorder.apply(change, for: draft)
        if hsmToken.name != sealing.name {
            sealing.use(hsmToken)
            checkpoints.forgetFormerHSMToken()
        }
        try await use(next)
        if accepts { try await gate.openAfterLoss() }
        return next.checkpointKey
    }

    /// Puts the key into service. The change is already recorded, so a failure to seal the record is only logged. The
    /// record is then sealed when the next audit checkpoint is due, or at the next start.
    private func use(_ key: AuditSigningKey) async throws(Refusal) {
        let newest = try await refusing(ledger: await ledger.latestCheckpoint())
        checkpoints.use(key, newest: newest, head: try await refusing(ledger: await ledger.head()))
        logger.notice("a new audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.error("the audit key change is not sealed yet", metadata: ["reason": "\(error.message)"])
        }
    }

    /// Returns the key in service, and the keys that were planned but never put into service.
    private func storedKeys() async throws(Refusal) -> (
        current: CheckpointKey, inService: StoredAuditKey, unused: [StoredAuditKey]
    ) {
        let stored = try await refusing(ledger: await ledger.auditKeys())
        guard let inService = stored.last(where: { $0.publicKey != nil }) else {
            throw Refusal(.invalidState, "This ledger has no audit key yet, which the HSM token has to make first.")
        }
        guard let key = inService.publicKey.flatMap(CheckpointKey.init(stored:)) else { throw .defect }
        return (key, inService, stored.filter { $0.publicKey == nil })
    }

    /// Throws unless the audit key is lost: no configured HSM token shows it. A key is not lost if its HSM token shows
    /// it but refuses to sign with it. To replace such a key as lost, an operator first removes its HSM token from the
    /// configuration.
    private func requireLoss(of key: StoredAuditKey) async throws(Refusal) {
        for hsmToken in sealing.all {
            let shown: [AuditKeyDescription]
            do throws(WorkerFailure) {
                shown = try await hsmToken.auditKeys()
            } catch {
                // After any other failure, such as an overload, the HSM token may still have the key.
                guard [.hsmTokenUnavailable, .loginRefused, .deadlineExceeded].contains(error.kind) else {
                    throw error.recordRefusal
                }
                continue
            }
            guard !shown.contains(where: { $0.identifier == key.identifier && $0.publicKey == key.publicKey }) else {
                throw Refusal(
                    .invalidState,
                    "The audit key is not lost: the HSM token \(hsmToken.name) answers and has it. Change the key without "
                        + "calling it lost.", details: "lost")
            }
        }
    }
}
