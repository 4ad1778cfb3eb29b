import AccessControl
import AuditChain
import DaemonConfiguration
import Foundation
import Ledger
import MerchantKeys
import Refusals
import ServerProgram
import UsageRecording

/// The decisions of a second person about requested operations. An approved operation is carried out at once, in the
/// same transaction as the approval. If only another node can carry out the operation, that node does so after it
/// learns of the approval (``carryOutApproved(_:)``). An approved key import, adoption of a Google Pay key or change at Apple
/// waits until the requester repeats the command.
struct ApprovalDecisions: Sendable {
    enum Decision: String, Sendable, CaseIterable {
        case approve, reject, withdraw
    }

    /// The result of approving or rejecting a requested operation.
    struct Outcome: Sendable {
        let approval: Approval
        /// The key after the operation. Nil if the operation concerns no key, or was not carried out.
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
        draft.setEvent(
            .approvalDecision(approval: identifier, decision: Self.recorded(decision), reason: reason))
        let approval = try await find(identifier)
        if let key = approval.key { draft.setSubject(key: key) }
        let person = try await caller.person()
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

    /// Refuses an approval that has already been decided or has expired. This check comes before all others. Otherwise
    /// the refusal of a decided approval could name the key's state as the reason. The transaction that stores the
    /// decision repeats the check.
    private func requirePending(_ approval: Approval, _ now: Date) throws(Refusal) {
        let conflict: ApprovalConflict
        switch approval.status(at: now) {
        case .pending: return
        case .expired: conflict = .expired
        case .approved, .done, .rejected, .withdrawn: conflict = .notPending(approval.status)
        }
        throw conflict.refusal
    }

    /// Refuses the approval unless another person requested it and the requester still has the role `admin`. The
    /// transaction checks again that the two persons differ.
    private func requireOtherPerson(_ approval: Approval, _ person: PersonIdentities) throws(Refusal) {
        let requester = approval.requester
        if let conflict = approval.requesterConflict(with: person, on: ledger.node) { throw conflict.refusal }
        guard approval.node == ledger.node else {
            // The requester's uid and groups belong to another host, so this host can check only the name of the
            // requester's rule.
            guard let name = requester.ruleName, policies.current.access.gives(.admin, toName: name) else {
                throw Refusal(
                    .approvalInvalid,
                    "No access rule on this host gives the role admin to \(requester.name), who requested the operation "
                        + "on another host; approve it there.", details: "node \(approval.node ?? "")")
            }
            return
        }
        let peer = PeerCredentials(uid: requester.uid, gid: requester.gid, groups: requester.groups)
        guard policies.current.access.caller(for: peer)?.has(.admin) == true else {
            throw Refusal(
                .approvalInvalid, "The requester no longer has the role admin; the operation was not carried out.")
        }
    }

    private func approve(
        _ approval: Approval, by caller: Caller, _ person: PersonIdentities, at now: Date, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let identifier = approval.identifier
        let decided = recorder.auditRecord(of: draft, by: caller)
        var change = AdministrativeChange(
            at: now, approval: .approve(identifier, by: person, executes: true), records: [decided])
        guard !approval.operation.waitsForRequester, canCarryOut(approval) else {
            change.approval = .approve(identifier, by: person, executes: false)
            try await recorder.apply(change, for: draft)
            return Outcome(approval: try await find(identifier), key: nil)
        }
        let key = try await carryOut(approval, change, by: caller, draft: draft)
        return Outcome(approval: try await find(identifier), key: key)
    }

    /// Returns true if this node can carry out the approved operation. Any node whose HSM tokens list an external key
    /// can adopt that key.
    private func canCarryOut(_ approval: Approval) -> Bool {
        guard approval.node != ledger.node, ApprovalOperation.ofOneNode.contains(approval.operation) else {
            return true
        }
        guard approval.operation == .keyAdopt, let key = approval.key.flatMap(lifecycle.catalogue.index.entry) else {
            return false
        }
        return !key.hsmTokens.isEmpty
    }

    /// Carries out an operation that was requested on this node and approved on another. Does nothing if it has already
    /// been carried out.
    func carryOutApproved(_ identifier: ApprovalIdentifier) async throws(Refusal) {
        let now = clock.now()
        let approval = try await find(identifier)
        guard approval.status(at: now) == .approved, approval.node == ledger.node,
            ApprovalOperation.ofOneNode.contains(approval.operation)
        else { return }
        let draft = AuditDraft()
        if let key = approval.key { draft.setSubject(key: key) }
        let change = AdministrativeChange(
            at: now,
            approval: .use(identifier, parameters: approval.parameters, by: approval.requester.person), records: [])
        _ = try await carryOut(approval, change, by: nil, draft: draft)
    }

    /// Carries out an approved operation.
    /// - Parameters:
    ///   - change: the change to complete and commit. It already contains the step that decides or uses the approval,
    ///     and the decision's audit record if this node made the decision.
    ///   - caller: the caller who approved; nil if the approval was given on another node.
    private func carryOut(
        _ approval: Approval, _ change: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry? {
        switch approval.operation {
        case .keyImport, .keyAdoptGooglePay, .certificateCreate, .certificateActivate, .certificateRevoke: throw .defect
        case .keyDestroy, .keyResume, .keyCompromise, .keyAdopt:
            return try await lifecycle.carryOut(approval, change, by: caller, draft: draft)
        case .ledgerAcceptRestore:
            let matter = try await gate.detectedRestore()
            guard matter.isPermitted(by: approval.parameters) else {
                throw ApprovalConflict.otherParameters.refusal
            }
            _ = try await gate.acceptRestore(
                matter, reason: approval.reason, by: caller.map(AuditCaller.init), approval: approval.identifier,
                decision: change)
        case .auditKeyChange:
            try await auditKey.carryOut(approval, change, by: caller, draft: draft)
        case .ledgerAcceptClock:
            try await clockAcceptance.carryOut(approval, change, by: caller, draft: draft)
        }
        return nil
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

extension ApprovalOperation {
    /// True if the approved operation is carried out when its requester repeats the command: the approval of an import has
    /// no key and that of a Google Pay key's adoption no merchant, and a change at Apple is decided on a list that is read
    /// directly before it.
    fileprivate var waitsForRequester: Bool {
        switch self {
        case .keyImport, .keyAdoptGooglePay, .certificateCreate, .certificateActivate, .certificateRevoke: true
        case .keyDestroy, .keyResume, .keyCompromise, .keyAdopt, .auditKeyChange, .ledgerAcceptRestore,
            .ledgerAcceptClock:
            false
        }
    }
}
