import AuditChain
import DaemonAPI
import Foundation
import Ledger
import Logging
import Refusals

/// Taking the present clock for right, against what a wrong one has left in the ledger; which nobody does alone.
///
/// What a clock that was ahead has pruned is gone: of a token from before, nobody can tell whether it was released. So that no
/// token is released twice, forgetting is taken back up to a fence only: tokens that were signed before the acceptance
/// and the widest signing-time window are refused for good, later ones are served. Why that is enough: what was pruned had been
/// claimed before the acceptance, and a token is claimed only while its signing time, which is Apple's, lies within the window of
/// the clock; so none was signed more than a window after its claim. A clock that is behind at the acceptance as well
/// would put the fence too early; it stands at least a window after the last release that the record shows. Claims that are still
/// there go on refusing their own repeats.
struct ClockAcceptance: Sendable {
    /// What would be done.
    struct Plan: Sendable, Equatable {
        let now: Date
        /// What is ahead of the clock, and would not be held against it any more.
        let newestRecord: Date?
        let forgottenBefore: Date?
        /// The fence; nil when what is forgotten does not lie ahead, and stays.
        let servedFrom: Date?
    }

    enum Outcome: Sendable {
        case accepted(Plan)
        case pending(Approval)
        /// A dry run found nothing against it.
        case wouldAccept(Plan)
    }

    let ledgerClock: LedgerClock
    let gate: LedgerGate
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let logger: Logger

    func accept(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        draft.is(.ledgerAcceptClock(LedgerClockAcceptance(reason: reason)))
        try gate.admit()
        let (plan, seen) = try await plan()
        guard !dryRun else { return .wouldAccept(plan) }
        guard rule.binds(caller) else {
            try await carryOut(
                plan, seen, AdministrativeChange(at: plan.now, records: []), reason: reason, approval: nil, by: caller,
                draft: draft)
            return .accepted(plan)
        }
        let approval = try rule.request(
            .ledgerAcceptClock, parameters: Self.parameters(plan), key: nil, keyState: nil, reason: reason, by: caller,
            at: plan.now)
        try await recorder.ask(approval, by: caller, for: draft)
        return .pending(approval)
    }

    /// Carries out what a second person approved, in one transaction with the approval. The fence is set by the time of the
    /// approval.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) {
        try gate.admit()
        let (plan, seen) = try await plan()
        guard Self.parameters(plan) == approval.parameters else {
            throw Refusal(.approvalInvalid, ApprovalConflict.otherParameters.description)
        }
        try await carryOut(
            plan, seen, decision, reason: approval.reason, approval: approval.identifier, by: caller, draft: draft)
    }

    /// What is approved is what was found ahead of the clock, no other.
    static func parameters(_ plan: Plan) -> AuditDigest {
        var parameters = OperationParameters(.ledgerAcceptClock)
        parameters.add(plan.newestRecord.map { AuditTime($0).text })
        parameters.add(plan.forgottenBefore.map { AuditTime($0).text })
        return parameters.digest
    }

    private func plan() async throws(Refusal) -> (Plan, LedgerTimes) {
        let standing: LedgerClock.Standing
        let newestRelease: Date?
        do throws(LedgerFailure) {
            standing = try await ledgerClock.look()
            newestRelease = standing.forgottenAhead == nil ? nil : try await ledgerClock.ledger.newestRelease()
        } catch {
            throw error.refusal
        }
        var fence: Date?
        if let forgotten = standing.forgottenAhead {
            guard let window = standing.window else {
                throw Refusal(
                    .invalidState,
                    "A signing_time_window is off, so nothing bounds when the tokens were signed whose claims are "
                        + "forgotten. Set it, at least until the clock is accepted.", details: "signing_time_window")
            }
            let newest = max(standing.now, newestRelease ?? standing.now)
            // Whole seconds, as answer and record have it.
            let served = (newest.timeIntervalSince1970 + window / .seconds(1)).rounded(.up)
            if served < forgotten.timeIntervalSince1970 { fence = Date(timeIntervalSince1970: served) }
        }
        guard fence != nil || standing.recordAhead != nil else {
            let details = standing.forgottenAhead.map { "tokens signed from \(RFC3339.string($0)) on are served" }
            throw Refusal(
                .invalidState,
                "The clock says \(RFC3339.string(standing.now)) and is not behind anything that can be taken back; there "
                    + "is nothing to accept.", details: details)
        }
        return (
            Plan(
                now: standing.now, newestRecord: standing.recordAhead,
                forgottenBefore: fence == nil ? nil : standing.forgottenAhead, servedFrom: fence), standing.times
        )
    }

    private func carryOut(
        _ plan: Plan, _ seen: LedgerTimes, _ decision: AdministrativeChange, reason: AuditReason,
        approval: ApprovalIdentifier?, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) {
        var change = decision
        var line = recorder.auditRecord(of: draft, by: caller)
        line.event = .ledgerAcceptClock(
            LedgerClockAcceptance(
                newestRecord: plan.newestRecord.map(AuditTime.init),
                forgottenBefore: plan.forgottenBefore.map(AuditTime.init),
                servedFrom: plan.servedFrom.map(AuditTime.init), reason: reason, approval: approval))
        change.records.append(line)
        change.clock = AdministrativeChange.ClockChange(
            forgottenBefore: seen.forgottenBefore, servedFrom: plan.servedFrom)
        try await recorder.apply(change, for: draft)
        logger.warning(
            "the clock was accepted",
            metadata: [
                "newest.record": "\(plan.newestRecord.map(RFC3339.string) ?? "-")",
                "forgotten.before": "\(plan.forgottenBefore.map(RFC3339.string) ?? "-")",
                "served.from": "\(plan.servedFrom.map(RFC3339.string) ?? "-")",
            ])
    }
}

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
