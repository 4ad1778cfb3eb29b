import AuditChain
import DaemonConfiguration
import FairShares
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerSupervision

/// Changes the states of keys (SP 800-57 part 1 §7). Each transition is checked, is recorded with the person and the
/// reason, and takes effect at once.
///
/// After the answer, the daemon releases no payment that the new state forbids, not even for a request that was already
/// queued. The transaction of each claim checks the key's state.
struct KeyLifecycle: Sendable {
    struct StateChange: Sendable, Equatable {
        let to: KeyState
        let reason: AuditReason
        /// The time until which a deactivated key still decrypts; nil if it stops at once.
        var cutOff: Date?
    }

    enum Outcome: Sendable {
        case changed(KeyEntry)
        /// The change of state waits until a second person approves it.
        case pending(Approval)
        /// The dry run found no reason to refuse the change.
        case wouldChange(KeyEntry, to: KeyState, needsApproval: Bool)
    }

    let catalogue: KeyCatalogue
    let hsmTokens: HSMTokenPool
    let ledger: any Ledger
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock
    /// Held from the decision to destroy a key until the key's objects are gone. Otherwise
    /// ``completeDestructions(gate:faults:)`` could destroy the objects at the same time.
    private let destructionLock = AsyncLock()

    func change(
        _ name: String, _ wanted: StateChange, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let entry = try catalogue.index.entry(named: name)
        draft.setSubject(entry)
        draft.setEvent(Self.event(wanted.to, wanted.reason, approval: nil))
        let known = try await keyRecord(of: entry)
        if known.state == .destroyed, wanted.to == .destroyed, !entry.hsmTokens.isEmpty {
            // The key is already recorded as destroyed, but an HSM token still has its objects. Destroying those
            // completes the earlier command.
            guard !dryRun else { return .wouldChange(entry, to: .destroyed, needsApproval: false) }
            await destructionLock.acquire()
            defer { destructionLock.release() }
            return .changed(try await destroyObjects(entry))
        }
        // No certificate protects against a key that a node lacks, so the proofs are never left out.
        if known.use == .googlePay, known.state == .preActivation, wanted.to == .active {
            throw Refusal(
                .invalidState,
                "A Google Pay key serves when every node has proved it and a person states that it is in Google's console.",
                details: "POST /v1/rotations/added")
        }
        let next = try known.transitioned(to: wanted.to, cutOff: wanted.cutOff, at: clock.now())
        draft.setEvent(Self.event(next.state, wanted.reason, approval: nil, cutOff: next.cutOff))
        let operation = Self.operation(from: known.state, to: wanted.to)
        let needsApproval = operation != nil && rule.needsSecondPerson(caller)
        guard !dryRun else { return .wouldChange(entry, to: next.state, needsApproval: needsApproval) }
        if let operation, needsApproval {
            return .pending(try await ask(operation, known, wanted, by: caller, draft: draft))
        }
        let change = AdministrativeChange(
            at: clock.now(), key: next, precondition: .state(known.state),
            records: [recorder.auditRecord(of: draft, by: caller)])
        return .changed(try await apply(change, entry, draft: draft))
    }

    /// Adopts an external key: adds to the ledger a key that was made in the HSM token outside paytokend.
    func adopt(
        _ name: String, reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let entry = try catalogue.index.entry(named: name)
        draft.setSubject(entry)
        draft.setEvent(.keyAdopt(approval: nil))
        let (adopted, parameters, facts) = try adoption(of: entry)
        draft.setEvent(.keyAdopt(approval: nil, key: facts))
        let needsApproval = rule.needsSecondPerson(caller)
        guard !dryRun else { return .wouldChange(entry, to: adopted.state, needsApproval: needsApproval) }
        guard needsApproval else {
            let change = AdministrativeChange(
                at: clock.now(), key: adopted, precondition: .absent,
                records: [recorder.auditRecord(of: draft, by: caller)])
            return .changed(try await apply(change, entry, draft: draft))
        }
        return .pending(
            try await recorder.ask(
                await rule.request(
                    .keyAdopt, parameters: parameters, key: entry.publicKeyHash, reason: reason, by: caller,
                    at: clock.now()), by: caller, for: draft))
    }

    /// Carries out an approved operation, in one transaction with the approval.
    ///
    /// - Parameter decision: the change to complete and commit. It already contains the step that decides or uses the
    ///   approval, and the decision's audit record if this node made the decision.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        guard let hash = approval.key, let entry = catalogue.index.entry(hash) else {
            throw Refusal(.approvalInvalid, "The approval's key is no longer known here.")
        }
        draft.setSubject(entry)
        var change = decision
        let event: AuditEvent
        var parameters = Self.parameters(approval.operation, hash)
        if approval.operation == .keyAdopt {
            let adoption = try adoption(of: entry)
            (change.key, parameters) = (adoption.key, adoption.parameters)
            change.precondition = .absent
            event = .keyAdopt(approval: approval.identifier, key: adoption.facts)
        } else {
            let known = try await keyRecord(of: entry)
            guard known.state == approval.keyState else {
                throw ApprovalConflict.keyChanged(from: approval.keyState, to: known.state).refusal
            }
            let next = try known.transitioned(to: Self.target(of: approval.operation), cutOff: nil, at: clock.now())
            change.key = next
            change.precondition = .state(known.state)
            event = Self.event(next.state, approval.reason, approval: approval.identifier, cutOff: next.cutOff)
        }
        guard approval.parameters == parameters else {
            throw ApprovalConflict.otherParameters.refusal
        }
        var done = recorder.auditRecord(of: draft, by: caller)
        done.event = event
        change.records.append(done)
        return try await apply(change, entry, draft: draft)
    }

    // MARK: Checks

    private func keyRecord(of entry: KeyEntry) async throws(Refusal) -> KeyRecord {
        guard let known = try await refusing(ledger: await ledger.keyRecord(entry.publicKeyHash)) else {
            throw Refusal(
                .invalidState, "The key was made outside paytokend and is not in the ledger; adopt it first.")
        }
        return known
    }

    /// Checks that the key can be adopted.
    /// - Returns: the key record to add, the digest that an approval covers, and the facts for the audit record. The
    ///   digest includes the key, its merchant, and the certificate that names the merchant.
    private func adoption(of entry: KeyEntry) throws(Refusal) -> (
        key: KeyRecord, parameters: AuditDigest, facts: KeyFacts
    ) {
        try entry.requireExternal()
        guard let certificate = entry.certificate else {
            throw Refusal(
                .invalidState,
                "The key has no certificate in the HSM token, so its merchant is unknown; import the certificate first, or "
                    + "state the merchant of a Google Pay key.", details: "use, merchantIdentifier")
        }
        let merchant = try certificate.merchantForImport(
            for: entry.use, expected: nil, allowExpired: true, now: clock.now())
        var parameters = OperationParameters(.keyAdopt)
        parameters.add(entry.publicKeyHash.bytes)
        parameters.add(merchant)
        parameters.add(certificate.sha256)
        let adopted = KeyRecord(
            publicKeyHash: entry.publicKeyHash, merchantIdentifier: merchant, algorithm: entry.algorithm,
            use: entry.use, state: .active, createdAt: clock.now(), origin: .adopted)
        return (adopted, parameters.digest, KeyFacts(certificate, origin: .adopted))
    }

    /// Returns the operation that a second person must approve; nil if this transition needs no approval. A transition
    /// needs an approval if it is irreversible, or if it lets the key decrypt again.
    private static func operation(from: KeyState, to: KeyState) -> ApprovalOperation? {
        switch (from, to) {
        case (_, .destroyed): .keyDestroy
        case (_, .compromised): .keyCompromise
        case (.suspended, .active): .keyResume
        default: nil
        }
    }

    private static func target(of operation: ApprovalOperation) -> KeyState {
        switch operation {
        case .keyDestroy: .destroyed
        case .keyCompromise: .compromised
        case .keyResume, .keyImport, .keyAdopt, .keyAdoptGooglePay, .auditKeyChange, .ledgerAcceptRestore,
            .ledgerAcceptClock, .certificateCreate, .certificateActivate, .certificateRevoke:
            .active
        }
    }

    private static func parameters(_ operation: ApprovalOperation, _ key: PublicKeyHash) -> AuditDigest {
        var parameters = OperationParameters(operation)
        parameters.add(key.bytes)
        return parameters.digest
    }

    private static func event(
        _ state: KeyState, _ reason: AuditReason, approval: ApprovalIdentifier?, cutOff: Date? = nil
    ) -> AuditEvent {
        .keyStateChange(
            KeyStateChange(
                from: nil, to: AuditKeyState(rawValue: state.rawValue),
                cutOff: state == .deactivated ? cutOff.map { AuditTime($0) } : nil, reason: reason, approval: approval))
    }

    // MARK: Changes

    /// Requests a second person's approval. If the key is reported as compromised, it is suspended at once, and the
    /// approval makes the compromise final.
    private func ask(
        _ operation: ApprovalOperation, _ known: KeyRecord, _ wanted: StateChange, by caller: Caller,
        draft: AuditDraft
    ) async throws(Refusal) -> Approval {
        let suspends = operation == .keyCompromise && known.state.canBecome(.suspended)
        let suspended = suspends ? known.suspended(at: clock.now()) : nil
        let approval = try await rule.request(
            operation, parameters: Self.parameters(operation, known.publicKeyHash), key: known.publicKeyHash,
            keyState: suspended?.state ?? known.state, reason: wanted.reason, by: caller, at: clock.now())
        var records: [AuditRecord] = []
        if suspended != nil {
            var suspending = recorder.auditRecord(of: draft, by: caller)
            suspending.event = Self.event(.suspended, approval.reason, approval: approval.identifier)
            records.append(suspending)
        }
        draft.setEvent(.approvalRequest(ApprovalRequest(approval)))
        records.append(recorder.auditRecord(of: draft, by: caller))
        try await recorder.apply(
            AdministrativeChange(
                at: clock.now(), key: suspended, precondition: .state(known.state), approval: .request(approval),
                records: records), for: draft)
        if suspended != nil { try await refresh(known.publicKeyHash) }
        return approval
    }

    private func apply(
        _ change: AdministrativeChange, _ entry: KeyEntry, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        guard change.key?.state == .destroyed else {
            try await recorder.apply(change, for: draft)
            try await refresh(entry.publicKeyHash)
            return catalogue.index.entry(entry.publicKeyHash) ?? entry
        }
        await destructionLock.acquire()
        defer { destructionLock.release() }
        try await recorder.apply(change, for: draft)
        try await refresh(entry.publicKeyHash)
        return try await destroyObjects(entry)
    }

    /// Destroys the objects of keys that the ledger records as destroyed but this node's HSM tokens still show. Another
    /// node may have destroyed such a key, or an HSM token was unavailable at the time.
    ///
    /// Nothing is destroyed before the ledger has been compared with the HSM token that seals its record, or while the
    /// two disagree.
    func completeDestructions(gate: LedgerGate, faults: FaultLog) async {
        for entry in catalogue.index.entries where entry.state == .destroyed && !entry.shownBy.isEmpty {
            guard case .open = gate.position else { return }
            await destructionLock.acquire()
            defer { destructionLock.release() }
            // Another task may have destroyed the objects in the meantime.
            guard let entry = catalogue.index.entry(entry.publicKeyHash), !entry.shownBy.isEmpty else { continue }
            do throws(Refusal) {
                // The index may be out of date, so the ledger is read again.
                guard try await keyRecord(of: entry).state == .destroyed else { continue }
                let left = try await destroyObjects(entry)
                for hsmToken in Set(entry.shownBy).subtracting(left.shownBy).sorted() {
                    ledger.note(
                        AuditRecord(
                            time: AuditTime(clock.now()), event: .keyObjectsDestroy,
                            merchant: entry.auditMerchant,
                            publicKeyHash: AuditDigest(bytes: entry.publicKeyHash.bytes), hsmToken: AuditText(hsmToken))
                    )
                }
                faults.ended(Self.destruction)
            } catch {
                faults.began(Self.destruction, error.message)
            }
        }
    }

    /// The component name, in fault log lines, for objects that could not be destroyed.
    private static let destruction = "destroyed key"

    private func refresh(_ hash: PublicKeyHash, emptied hsmTokens: [String] = []) async throws(Refusal) {
        try await refusing(ledger: await catalogue.keyChanged(hash, shown: hsmTokens.map { ($0, []) }))
    }

    /// Destroys the objects of the key in all HSM tokens. The ledger already records the key as destroyed, so the key
    /// is not used again even if this function throws.
    private func destroyObjects(_ entry: KeyEntry) async throws(Refusal) -> KeyEntry {
        let emptied: [String]
        do {
            emptied = try await hsmTokens.destroyKey(entry.publicKeyHash)
        } catch {
            throw Refusal(
                .hsmUnavailable,
                "The key is recorded as destroyed and is not used again, but its objects are still in an HSM token; "
                    + "repeat the command when that HSM token can be reached.")
        }
        try await refresh(entry.publicKeyHash, emptied: emptied)
        return catalogue.index.entry(entry.publicKeyHash) ?? entry
    }
}

extension KeyRecord {
    fileprivate func transitioned(to wanted: KeyState, cutOff: Date?, at now: Date) throws(Refusal) -> KeyRecord {
        do {
            return try changed(to: wanted, cutOff: cutOff, at: now)
        } catch {
            throw error.refusal
        }
    }
}

extension KeyTransitionError {
    var refusal: Refusal {
        switch self {
        case .impossible(let from, let to):
            Refusal(
                .invalidState, "A key that is \(from.rawValue) cannot become \(to.rawValue).",
                details: "from \(from.rawValue) it can become \(Self.successors(of: from))")
        case .cutOffForSuspendedKey:
            Refusal(
                .malformedRequest,
                "A suspended key is retired without a cut-off; resume it first if it must still decrypt.",
                details: "cutOff")
        case .cutOffForSigningKey:
            Refusal(
                .malformedRequest,
                "A key for signatures signs nothing once it is deactivated, so it is retired without a cut-off.",
                details: "cutOff")
        case .cutOffNotInFuture:
            Refusal(.malformedRequest, "cutOff must lie in the future.", details: "cutOff")
        case .cutOffTooFarAhead:
            Refusal(
                .malformedRequest, "cutOff must lie at most \(Int(KeyRecord.longestCutOff / 86_400)) days ahead.",
                details: "cutOff")
        }
    }

    /// Returns the states to which a key in this state can change, as a phrase for a refusal's sentence.
    private static func successors(of state: KeyState) -> String {
        let possible = [KeyState.active, .suspended, .deactivated, .compromised, .destroyed]
            .filter { state.canBecome($0) }
            .map {
                $0 == .active && state == .preActivation
                    ? "active (with its certificate; a Google Pay key with POST /v1/rotations/added)" : $0.rawValue
            }
        return possible.isEmpty ? "nothing else" : possible.joined(separator: ", ")
    }
}
