import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `GET /v1/approvals` and `POST /v1/approvals/{id}`.
struct ApprovalRoutes: Sendable {
    let decisions: ApprovalDecisions
    let summaries: KeySummaries
    let clock: WallClock

    func list(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let now = clock.now()
        let pending = try await decisions.pending()
        // If the ledger's audit keys cannot be read, an audit key change is listed without the name of its new HSM
        // token. The rest of the list is still useful.
        let hasKeyChange = pending.contains { $0.operation == .auditKeyChange }
        let successors = hasKeyChange ? try? await decisions.auditKey.successors() : nil
        return try .json(
            ListAnswer(
                items: pending.map { approval in
                    var summary = summary(approval, now: now)
                    if approval.operation == .auditKeyChange, let successor = successors?[approval.parameters] {
                        summary.token = successor.hsmToken.name
                        summary.lost = successor.replacesLostKey ? true : nil
                    }
                    return summary
                }, next: nil))
    }

    func decide(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        request.draft.setEvent(.approvalDecision(approval: nil, decision: .reject, reason: nil))
        let body = try ApprovalDecisionRequest(parsing: request.body)
        guard let decision = ApprovalDecisions.Decision(rawValue: body.decision) else {
            throw Refusal(.malformedRequest, "decision must be approve, reject or withdraw.", details: "decision")
        }
        guard let identifier = ApprovalIdentifier(hex: request.pathArguments[0]) else {
            throw Refusal(.approvalInvalid, ApprovalConflict.unknown.description)
        }
        let outcome = try await decisions.decide(
            identifier, decision, reason: body.reason.map { AuditReason($0) }, by: request.knownCaller(),
            draft: request.draft)
        return try .json(
            ApprovalDecisionAnswer(
                approval: summary(outcome.approval, now: clock.now()),
                key: outcome.key.map { summaries.summary($0) }))
    }

    private func summary(_ approval: Approval, now: Date) -> ApprovalSummary {
        let merchant = approval.key.flatMap { summaries.index.entry($0) }?.merchantIdentifier
        var summary = ApprovalSummary(approval, merchant: merchant.flatMap { $0.isEmpty ? nil : $0 }, now: now)
        if decisions.ledger.isShared { summary.node = approval.node }
        return summary
    }
}

extension ApprovalSummary {
    init(_ approval: Approval, merchant: String?, now: Date) {
        self.init(
            approval: approval.identifier.hex, operation: approval.operation.rawValue,
            status: approval.status(at: now).rawValue, publicKeyHash: approval.key?.base64,
            merchantIdentifier: merchant, keyState: approval.keyState?.rawValue, reason: approval.reason.text,
            requestedBy: approval.requester.name, requester: approval.requester.uid,
            requesterLoginUid: approval.requester.person.loginUID, requestedAt: approval.requestedAt,
            expires: approval.expires, decidedBy: approval.decidedBy,
            decidedAt: approval.decidedAt)
    }
}

extension EndpointAnswer {
    /// Returns the 202 answer for an operation that waits for a second person.
    static func pending(_ approval: Approval) throws(Refusal) -> EndpointAnswer {
        try .json(
            PendingAnswer(
                approval: approval.identifier.hex, expires: approval.expires, keyState: approval.keyState?.rawValue),
            status: 202, outcome: "pending")
    }
}
