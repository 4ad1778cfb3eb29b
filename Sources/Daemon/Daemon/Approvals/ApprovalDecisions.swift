import AccessControl
import AuditChain
import Foundation
import Ledger
import MerchantKeys
import Refusals
import ServerProgram

/// The second person's decisions. What is approved is carried out at once, in the same transaction; but what is another node's own
/// matter is carried out by that node, which notices the approval (``carryOutApproved(_:)``).
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
        if let conflict = approval.requesterConflict(with: person, on: ledger.node) { throw conflict.refusal }
        guard approval.node == ledger.node else {
            // Its uid and groups are another host's; the rules here know it by its name alone.
            guard let name = requester.ruleName, policies.current.access.gives(.admin, toName: name) else {
                throw Refusal(
                    .approvalInvalid,
                    "No access rule of this host gives the role admin to \(requester.name), who asked for the operation on another "
                        + "one; approve it there.", details: "node \(approval.node ?? "")")
            }
            return
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
        guard approval.operation != .keyImport, canCarryOut(approval) else {
            change.approval = .approve(identifier, by: person, executes: false)
            try await recorder.apply(change, for: draft)
            return Outcome(approval: try await find(identifier), key: nil)
        }
        let key = try await carryOut(approval, change, by: caller, draft: draft)
        return Outcome(approval: try await find(identifier), key: key)
    }

    /// Whether this node can do it. A key that was made outside is adopted by any node whose HSM tokens show it.
    private func canCarryOut(_ approval: Approval) -> Bool {
        guard approval.node != ledger.node, ApprovalOperation.ofOneNode.contains(approval.operation) else {
            return true
        }
        guard approval.operation == .keyAdopt, let key = approval.key.flatMap(lifecycle.catalogue.index.entry) else {
            return false
        }
        return !key.hsmTokens.isEmpty
    }

    /// Carries out what was approved on another node, and is this node's own matter. Does nothing where that was done already.
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

    /// - Parameters:
    ///   - change: with the approval's step and its record.
    ///   - caller: nil where the approval was given on another node.
    private func carryOut(
        _ approval: Approval, _ change: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> KeyEntry? {
        switch approval.operation {
        case .keyImport: throw .defect
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
