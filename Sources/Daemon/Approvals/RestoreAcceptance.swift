import AuditChain
import Foundation
import Ledger
import Refusals

/// Taking an older ledger knowingly into service, which nobody does alone.
struct RestoreAcceptance: Sendable {
    enum Outcome: Sendable {
        /// Where the ledger ends, and the sequence that the token remembered.
        case accepted(ledgerSequence: Int, hsmTokenSequence: Int?)
        case pending(Approval)
    }

    let gate: LedgerGate
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock

    /// What is accepted is the disagreement that was seen, no other.
    static func parameters(_ disagreement: LedgerDisagreement) -> AuditDigest {
        var parameters = OperationParameters(.ledgerAcceptRestore)
        parameters.add(disagreement.description)
        return parameters.digest
    }

    func accept(
        reason: AuditReason, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        guard case .held(let disagreement) = gate.position else {
            throw Refusal(.invalidState, "Ledger and token agree; there is nothing to accept.")
        }
        guard rule.binds(caller) else {
            let (ledgerSequence, hsmTokenSequence) = try await gate.acceptRestore(
                reason: reason, by: AuditCaller(caller))
            return .accepted(ledgerSequence: ledgerSequence, hsmTokenSequence: hsmTokenSequence)
        }
        let approval = try rule.request(
            .ledgerAcceptRestore, parameters: Self.parameters(disagreement), key: nil, keyState: nil, reason: reason,
            by: caller, at: clock.now())
        try await recorder.ask(approval, by: caller, for: draft)
        return .pending(approval)
    }
}
