import AuditChain
import Foundation
import Ledger
import MerchantKeys
import Refusals

/// The second person's decisions. What is approved is carried out at once.
struct ApprovalDecisions: Sendable {
    enum Decision: String, Sendable, CaseIterable {
        case approve, reject, withdraw
    }

    /// What came of a decision.
    struct Outcome: Sendable {
        let approval: Approval
        /// The key as it stands now; nil where none is concerned, or nothing was carried out.
        let key: KeyEntry?
    }

    let ledger: any Ledger
    let policies: CurrentPolicies
    let lifecycle: KeyLifecycle
    let gate: LedgerGate
    let auditKey: AuditKeyChange
    let clockAcceptance: ClockAcceptance
    let recorder: UsageRecorder
    let clock: WallClock

    func pending() async throws(Refusal) -> [Approval] {
        try await refusing(ledger: await ledger.approvals(limit: 1000))
    }

    func decide(
        _ identifier: ApprovalIdentifier, _ decision: Decision, reason: AuditReason?, by caller: Caller,
        draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let now = clock.now()
        draft.is(
            .approvalDecision(approval: identifier, decision: Self.recorded(decision), reason: reason))
        let approval = try await find(identifier)
        if let key = approval.key { draft.concerns(key: key) }
        let person = try caller.person()
        let step: AdministrativeChange.ApprovalStep
        switch decision {
        case .reject: step = .reject(identifier, by: person)
        case .withdraw: step = .withdraw(identifier, by: person)
        case .approve:
            try requirePending(approval, now)
            try requireOtherPerson(approval, person)
            return try await approve(approval, by: caller, person, at: now, draft: draft)
        }
        try await recorder.apply(
            AdministrativeChange(
                at: now, approval: step, records: [recorder.auditRecord(of: draft, by: caller)]), for: draft)
        return Outcome(approval: try await find(identifier), key: nil)
    }

    /// An approval that was decided already, or comes too late, is refused for that reason, before the key's state can
    /// give another one. The transaction checks it again.
    private func requirePending(_ approval: Approval, _ now: Date) throws(Refusal) {
        let conflict: ApprovalConflict
        switch approval.status(at: now) {
        case .pending: return
        case .expired: conflict = .expired
        case .approved, .done, .rejected, .withdrawn: conflict = .notPending(approval.status)
        }
        throw conflict.refusal
    }

    /// The requester must be another person, and must still have the role that asking takes. The transaction checks the
    /// first again.
    private func requireOtherPerson(_ approval: Approval, _ person: PersonIdentities) throws(Refusal) {
        let requester = approval.requester
        guard person.isAnother(than: requester.person) else {
            throw ApprovalConflict.samePerson.refusal
        }
        let peer = PeerCredentials(uid: requester.uid, gid: requester.gid, groups: requester.groups)
        guard policies.current.access.caller(for: peer)?.has(.admin) == true else {
            throw Refusal(
                .approvalInvalid, "Who asked for the operation does not hold the role admin any more; it is not done.")
        }
    }

    private func approve(
        _ approval: Approval, by caller: Caller, _ person: PersonIdentities, at now: Date, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let identifier = approval.identifier
        let decided = recorder.auditRecord(of: draft, by: caller)
        var change = AdministrativeChange(
            at: now, approval: .approve(identifier, by: person, executes: true), records: [decided])
        var key: KeyEntry?
        switch approval.operation {
        case .keyImport:
            change.approval = .approve(identifier, by: person, executes: false)
            try await recorder.apply(change, for: draft)
        case .keyDestroy, .keyResume, .keyCompromise, .keyAdopt:
            key = try await lifecycle.carryOut(approval, change, by: caller, draft: draft)
        case .ledgerAcceptRestore:
            guard case .held(let disagreement) = gate.position,
                RestoreAcceptance.parameters(disagreement) == approval.parameters
            else { throw ApprovalConflict.otherParameters.refusal }
            _ = try await gate.acceptRestore(
                reason: approval.reason, by: AuditCaller(caller), approval: identifier, decision: change)
        case .auditKeyChange:
            try await auditKey.carryOut(approval, change, by: caller, draft: draft)
        case .ledgerAcceptClock:
            try await clockAcceptance.carryOut(approval, change, by: caller, draft: draft)
        }
        return Outcome(approval: try await find(identifier), key: key)
    }

    private func find(_ identifier: ApprovalIdentifier) async throws(Refusal) -> Approval {
        guard let approval = try await refusing(ledger: await ledger.approval(identifier)) else {
            throw ApprovalConflict.unknown.refusal
        }
        return approval
    }

    private static func recorded(_ decision: Decision) -> ApprovalDecision {
        switch decision {
        case .approve: .approve
        case .reject: .reject
        case .withdraw: .withdraw
        }
    }
}
