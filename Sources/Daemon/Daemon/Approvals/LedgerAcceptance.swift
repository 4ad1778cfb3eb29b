import AuditChain
import DaemonAPI
import Encodings
import Foundation
import Ledger
import Logging
import Refusals

/// Accepts the present clock as right, against what a wrong clock has left in the ledger, which nobody does alone.
///
/// The claims that were pruned while the clock was ahead are gone: of a payment token from before, nobody can tell whether
/// it was released. So that none is released twice, only those are served again that were signed after a fence: the
/// acceptance plus the widest signing-time window. Those signed before the fence stay refused for good.
///
/// Why the fence is late enough: every pruned claim was made before the acceptance, and a payment token is claimed only
/// while its signing time, which is Apple's, lies within the window around the clock. So no pruned one was signed more than
/// a window after its claim. Should the clock be behind at the acceptance, the fence would stand too early; it therefore
/// stands at least a window after the last release that the record shows. Claims that are still there go on refusing
/// repeats.
struct ClockAcceptance: ClockAccepting {
    /// What would be done.
    struct Plan: Sendable, Equatable {
        let now: Date
        /// What is ahead of the clock, and would not be held against it any more.
        let newestRecord: Date?
        let forgottenBefore: Date?
        /// The fence; nil when what is forgotten does not lie ahead, and stays. A shared ledger may set it later.
        var servedFrom: Date?
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
        draft.setEvent(.ledgerAcceptClock(LedgerClockAcceptance(reason: reason)))
        try gate.admit()
        let (plan, seen) = try await plan()
        guard !dryRun else { return .wouldAccept(plan) }
        guard rule.binds(caller) else {
            return .accepted(
                try await carryOut(
                    plan, seen, AdministrativeChange(at: plan.now, records: []), reason: reason, approval: nil,
                    by: caller, draft: draft))
        }
        return .pending(
            try await recorder.ask(
                await rule.request(
                    .ledgerAcceptClock, parameters: Self.parameters(plan), reason: reason, by: caller, at: plan.now),
                by: caller, for: draft))
    }

    /// Carries out what a second person approved, in one transaction with the approval. The fence is computed from the time
    /// of the approval.
    func carryOut(
        _ approval: Approval, _ decision: AdministrativeChange, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) {
        try gate.admit()
        let (plan, seen) = try await plan()
        guard Self.parameters(plan) == approval.parameters else {
            throw ApprovalConflict.otherParameters.refusal
        }
        _ = try await carryOut(
            plan, seen, decision, reason: approval.reason, approval: approval.identifier, by: caller, draft: draft)
    }

    /// An approval is for what was found ahead of the clock then, and nothing else.
    static func parameters(_ plan: Plan) -> AuditDigest {
        var parameters = OperationParameters(.ledgerAcceptClock)
        parameters.add(plan.newestRecord.map { AuditTime($0).text })
        parameters.add(plan.forgottenBefore.map { AuditTime($0).text })
        return parameters.digest
    }

    private func plan() async throws(Refusal) -> (Plan, LedgerTimes) {
        let comparison = try await refusing(ledger: await ledgerClock.compare())
        var fence: Date?
        if let forgotten = comparison.forgottenAhead {
            let newestRelease = try await refusing(ledger: await ledgerClock.ledger.newestRelease())
            guard let window = comparison.window else {
                throw Refusal(
                    .invalidState,
                    "A signing_time_window is off, so nothing bounds when the payment tokens were signed whose claims "
                        + "are forgotten. Set it, at least until the clock is accepted.", details: "signing_time_window"
                )
            }
            let newest = max(comparison.now, newestRelease ?? comparison.now)
            // Whole seconds, as answer and record have it.
            let served = (newest.timeIntervalSince1970 + window / .seconds(1)).rounded(.up)
            if served < forgotten.timeIntervalSince1970 { fence = Date(timeIntervalSince1970: served) }
        }
        guard fence != nil || comparison.recordAhead != nil else {
            let details = comparison.forgottenAhead.map {
                "payment tokens signed from \(RFC3339.string($0)) on are served"
            }
            throw Refusal(
                .invalidState,
                "The clock says \(RFC3339.string(comparison.now)) and is not behind anything that can be taken back; there "
                    + "is nothing to accept.", details: details)
        }
        return (
            Plan(
                now: comparison.now, newestRecord: comparison.recordAhead,
                forgottenBefore: fence == nil ? nil : comparison.forgottenAhead, servedFrom: fence), comparison.times
        )
    }

    /// - Returns: the plan as it was carried out.
    private func carryOut(
        _ planned: Plan, _ seen: LedgerTimes, _ decision: AdministrativeChange, reason: AuditReason,
        approval: ApprovalIdentifier?, by caller: Caller?, draft: AuditDraft
    ) async throws(Refusal) -> Plan {
        var plan = planned
        var change = decision
        var auditRecord = recorder.auditRecord(of: draft, by: caller)
        auditRecord.event = .ledgerAcceptClock(
            LedgerClockAcceptance(
                newestRecord: plan.newestRecord.map(AuditTime.init),
                forgottenBefore: plan.forgottenBefore.map(AuditTime.init),
                servedFrom: plan.servedFrom.map(AuditTime.init), reason: reason, approval: approval))
        change.records.append(auditRecord)
        change.clock = AdministrativeChange.ClockChange(
            forgottenBefore: seen.forgottenBefore, servedFrom: plan.servedFrom)
        try await recorder.apply(change, for: draft)
        if plan.servedFrom != nil {
            plan.servedFrom = try await refusing(ledger: await ledgerClock.ledger.times()).forgottenBefore
        }
        logger.warning(
            "the clock was accepted",
            metadata: [
                "newest.record": "\(plan.newestRecord.map(RFC3339.string) ?? "-")",
                "forgotten.before": "\(plan.forgottenBefore.map(RFC3339.string) ?? "-")",
                "served.from": "\(plan.servedFrom.map(RFC3339.string) ?? "-")",
            ])
        return plan
    }
}

/// Takes an older ledger into service although the HSM token remembers a newer one, which nobody does alone.
struct RestoreAcceptance: RestoreAccepting {
    enum Outcome: Sendable {
        /// Where the ledger ends, the sequence that was remembered, and the fence.
        case accepted(ledgerSequence: Int, hsmTokenSequence: Int?, servedFrom: Date?)
        case pending(Approval)
        /// A dry run found nothing against it.
        case wouldAccept(ledgerSequence: Int, hsmTokenSequence: Int?)
    }

    let gate: LedgerGate
    let rule: TwoPersonRule
    let recorder: UsageRecorder
    let clock: WallClock

    func accept(
        reason: AuditReason, withoutFinding: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> Outcome {
        let matter = try await gate.detectedRestore()
        guard !matter.isEmpty || withoutFinding else {
            throw Refusal(
                .invalidState, "Ledger and HSM token agree; there is nothing to accept.",
                details: "withoutFinding sets the fence all the same, for what a lost process did in its last minute")
        }
        try await gate.requireBoundedWindows()
        guard !dryRun else {
            return .wouldAccept(
                ledgerSequence: try await gate.examineRestore(matter).ledgerSequence,
                hsmTokenSequence: matter.rememberedSequence)
        }
        guard rule.binds(caller) else {
            let (ledgerSequence, hsmTokenSequence) = try await gate.acceptRestore(
                matter, reason: reason, by: AuditCaller(caller))
            let times = try await refusing(ledger: await gate.ledger.times())
            return .accepted(
                ledgerSequence: ledgerSequence, hsmTokenSequence: hsmTokenSequence, servedFrom: times.restoreFence)
        }
        return .pending(
            try await recorder.ask(
                await rule.request(
                    .ledgerAcceptRestore, parameters: matter.parameters, reason: reason, by: caller, at: clock.now()),
                by: caller, for: draft))
    }
}

// MARK: What the routes ask

/// Takes a ledger into service with which the HSM token disagrees.
protocol RestoreAccepting: Sendable {
    /// Checks whether it can and may be accepted, and records it, or has it wait for a second person.
    ///
    /// - Parameter withoutFinding: whether the fence is set where nobody has found anything, too.
    /// - Throws: invalid_state when there is nothing to accept, or accepting cannot help.
    func accept(
        reason: AuditReason, withoutFinding: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> RestoreAcceptance.Outcome
}

/// Takes the present clock for right, against what the ledger says about the time.
protocol ClockAccepting: Sendable {
    /// Checks whether it can and may be accepted, and records it, or has it wait for a second person.
    ///
    /// - Throws: invalid_state when there is nothing to accept, or a signing-time window is off that would have to bound it.
    func accept(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> ClockAcceptance.Outcome
}
