import AuditChain
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import WorkerProtocol

/// The states of SP 800-57 part 1 §7: each transition judged, recorded with who and why, and effective at once. After
/// the answer nothing is released that the new state does not permit, queued requests included: a release judges the
/// key's state in the transaction of its claim.
struct KeyLifecycle: Sendable {
    struct StateChange: Sendable, Equatable {
        let to: KeyState
        let reason: AuditReason
        /// Until when a deactivated key still decrypts.
        var cutOff: Date?
    }

    enum Outcome: Sendable {
        case changed(KeyEntry)
        /// It waits for a second person.
        case pending(Approval)
        /// A dry run found nothing against it.
        case wouldChange(KeyEntry, to: KeyState, needsApproval: Bool)
    }

    let catalogue: KeyCatalogue
    let hsmTokens: any KeyDestroying
    let ledger: any Ledger
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock

    func change(
        _ name: String, _ wanted: StateChange, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let entry = try catalogue.index.find(name)
        draft.concerns(entry)
        draft.is(Self.event(wanted.to, wanted.reason, approval: nil))
        let known = try await keyRecord(of: entry)
        if known.state == .destroyed, wanted.to == .destroyed, !entry.hsmTokens.isEmpty {
            // The ledger had it destroyed and a token could not be reached: this completes it.
            guard !dryRun else { return .wouldChange(entry, to: .destroyed, needsApproval: false) }
            return .changed(try await destroyObjects(entry))
        }
        let next = try known.changed(to: wanted.to, cutOff: wanted.cutOff, at: clock.now())
        draft.is(Self.event(next.state, wanted.reason, approval: nil))
        let operation = Self.operation(from: known.state, to: wanted.to)
        let needsApproval = operation != nil && rule.binds(caller)
        guard !dryRun else { return .wouldChange(entry, to: next.state, needsApproval: needsApproval) }
        if let operation, needsApproval {
            return .pending(try await ask(operation, known, wanted, by: caller, draft: draft))
        }
        let change = AdministrativeChange(
            at: clock.now(), key: next, precondition: .state(known.state),
            records: [recorder.auditRecord(of: draft, by: caller)])
        return .changed(try await apply(change, entry, draft: draft))
    }

    /// Takes a key into the ledger that was made in the token by other means.
    func adopt(
        _ name: String, reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let entry = try catalogue.index.find(name)
        draft.concerns(entry)
        draft.is(.keyAdopt(approval: nil))
        let adopted = try adoption(of: entry)
        let needsApproval = rule.binds(caller)
        guard !dryRun else { return .wouldChange(entry, to: adopted.state, needsApproval: needsApproval) }
        guard needsApproval else {
            let change = AdministrativeChange(
                at: clock.now(), key: adopted, precondition: .absent,
                records: [recorder.auditRecord(of: draft, by: caller)]
            )
            return .changed(try await apply(change, entry, draft: draft))
        }
        let approval = try rule.request(
            .keyAdopt, parameters: Self.parameters(.keyAdopt, entry.publicKeyHash), key: entry.publicKeyHash,
            keyState: nil, reason: reason, by: caller, at: clock.now())
        try await store(approval, alsoChanging: nil, from: nil, by: caller, draft: draft)
        return .pending(approval)
    }

    /// Carries out what a second person approved, in one transaction with the approval.
    ///
    /// - Parameter decision: with the approval's step and its record.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        guard let hash = approval.key, let entry = catalogue.index.entry(hash) else {
            throw Refusal(.approvalInvalid, "The key that the approval is about is not known here any more.")
        }
        draft.concerns(entry)
        var change = decision
        let event: AuditEvent
        if approval.operation == .keyAdopt {
            change.key = try adoption(of: entry)
            change.precondition = .absent
            event = .keyAdopt(approval: approval.identifier)
        } else {
            let known = try await keyRecord(of: entry)
            if known.state != approval.keyState {
                let conflict = ApprovalConflict.keyChanged(from: approval.keyState, to: known.state)
                throw Refusal(.approvalInvalid, conflict.description)
            }
            let next = try known.changed(to: Self.target(of: approval.operation), cutOff: nil, at: clock.now())
            change.key = next
            change.precondition = .state(known.state)
            event = Self.event(next.state, approval.reason, approval: approval.identifier)
        }
        guard approval.parameters == Self.parameters(approval.operation, hash) else {
            throw Refusal(.approvalInvalid, ApprovalConflict.otherParameters.description)
        }
        var done = recorder.auditRecord(of: draft, by: caller)
        done.event = event
        change.records.append(done)
        return try await apply(change, entry, draft: draft)
    }

    // MARK: Judging

    private func keyRecord(of entry: KeyEntry) async throws(Refusal) -> KeyRecord {
        let known: KeyRecord?
        do throws(LedgerFailure) {
            known = try await ledger.keyRecord(entry.publicKeyHash)
        } catch {
            throw error.refusal
        }
        guard let known else {
            throw Refusal(
                .invalidState, "The key was made outside and is not in the ledger; adopt it first (key adopt).")
        }
        return known
    }

    private func adoption(of entry: KeyEntry) throws(Refusal) -> KeyRecord {
        guard case .external = entry.condition else {
            throw Refusal(
                .invalidState, "Only a key that was made outside is adopted; this one is \(entry.condition.name).")
        }
        guard let certificate = entry.certificate else {
            throw Refusal(
                .invalidState,
                "The key has no certificate in the token, so nothing says whose it is; import that first.")
        }
        let merchant = try certificate.merchantForImport(expected: nil, allowExpired: true, now: clock.now())
        return KeyRecord(
            publicKeyHash: entry.publicKeyHash, merchantIdentifier: merchant, algorithm: entry.algorithm,
            state: .active, createdAt: clock.now(), origin: .adopted)
    }

    /// What needs a second person: what cannot be taken back, and what gives a key back its power.
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
        case .keyResume, .keyImport, .keyAdopt, .auditKeyChange, .ledgerAcceptRestore, .ledgerAcceptClock: .active
        }
    }

    private static func parameters(_ operation: ApprovalOperation, _ key: PublicKeyHash) -> AuditDigest {
        var parameters = OperationParameters(operation)
        parameters.add(key.bytes)
        return parameters.digest
    }

    private static func event(
        _ state: KeyState, _ reason: AuditReason, approval: ApprovalIdentifier?
    ) -> AuditEvent {
        .keyStateChange(
            KeyStateChange(from: nil, to: AuditKeyState(rawValue: state.rawValue), reason: reason, approval: approval))
    }

    // MARK: Changing

    /// A compromise that is only asked for suspends the key at once; its approval makes it final.
    private func ask(
        _ operation: ApprovalOperation, _ known: KeyRecord, _ wanted: StateChange, by caller: Caller,
        draft: AuditDraft
    ) async throws(Refusal) -> Approval {
        var suspended: KeyRecord?
        if operation == .keyCompromise, known.state.canBecome(.suspended) {
            suspended = known.suspended(at: clock.now())
        }
        let approval = try rule.request(
            operation, parameters: Self.parameters(operation, known.publicKeyHash), key: known.publicKeyHash,
            keyState: suspended?.state ?? known.state, reason: wanted.reason, by: caller, at: clock.now())
        try await store(approval, alsoChanging: suspended, from: known.state, by: caller, draft: draft)
        return approval
    }

    private func store(
        _ approval: Approval, alsoChanging key: KeyRecord?, from state: KeyState?, by caller: Caller,
        draft: AuditDraft
    ) async throws(Refusal) {
        var records: [AuditRecord] = []
        if key != nil {
            var suspending = recorder.auditRecord(of: draft, by: caller)
            suspending.event = Self.event(.suspended, approval.reason, approval: approval.identifier)
            records.append(suspending)
        }
        draft.is(.approvalRequest(ApprovalRequest(approval)))
        records.append(recorder.auditRecord(of: draft, by: caller))
        let change = AdministrativeChange(
            at: clock.now(), key: key, precondition: state.map { .state($0) } ?? .any, approval: .request(approval),
            records: records)
        try await recorder.apply(change, for: draft)
        if let key { try await lookAgain(at: key.publicKeyHash) }
    }

    private func apply(
        _ change: AdministrativeChange, _ entry: KeyEntry, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry {
        try await recorder.apply(change, for: draft)
        try await lookAgain(at: entry.publicKeyHash)
        guard change.key?.state == .destroyed else { return catalogue.index.entry(entry.publicKeyHash) ?? entry }
        return try await destroyObjects(entry)
    }

    private func lookAgain(at key: PublicKeyHash, emptied hsmTokens: [String] = []) async throws(Refusal) {
        do throws(LedgerFailure) {
            try await catalogue.keyChanged(key, shown: hsmTokens.map { ($0, []) })
        } catch {
            throw error.refusal
        }
    }

    /// The ledger has the key destroyed by now, so it is never used again; what a token still holds is removed.
    private func destroyObjects(_ entry: KeyEntry) async throws(Refusal) -> KeyEntry {
        let emptied: [String]
        do {
            emptied = try await hsmTokens.destroyKey(entry.publicKeyHash)
        } catch {
            throw Refusal(
                .hsmUnavailable,
                "The key is recorded as destroyed and is not used again, but its objects are still in a token; repeat "
                    + "the command when the token can be reached.")
        }
        try await lookAgain(at: entry.publicKeyHash, emptied: emptied)
        return catalogue.index.entry(entry.publicKeyHash) ?? entry
    }
}

/// What a key's end asks of the tokens.
protocol KeyDestroying: Sendable {
    /// Removes the key's objects, private, public and certificates, from every token that has them.
    ///
    /// - Returns: the configured names of the tokens that do not show it any more.
    func destroyKey(_ hash: PublicKeyHash) async throws(WorkerFailure) -> [String]
}
