import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import Ledger
import Logging
import Refusals
import UsageRecording

/// Accepts the daemon's clock as right, although the ledger contains later times. Those times were written while a
/// clock was ahead. A second person must approve.
///
/// The claims that were pruned while a clock was ahead are lost. The daemon therefore cannot tell whether an earlier
/// payment token was released. To prevent a second release, it serves only payment tokens that were signed after a
/// fence: the acceptance time plus the widest signing-time window. Payment tokens that were signed before the fence and
/// have no claim stay refused for good.
///
/// The fence is late enough, as the following steps show. Every pruned claim was made before the acceptance. A payment
/// token is claimed only while its signing time, which Apple sets, is within the window around the clock. So no payment
/// token with a pruned claim was signed more than a window after its claim. A clock that is set back at the acceptance
/// would make the fence too early. Therefore the fence is also at least a window after the last release in the record.
/// Payment tokens whose claims were not pruned are still refused as replays.
struct ClockAcceptance: ClockAccepting {
    /// The changes that accepting the clock would make.
    struct Plan: Sendable, Equatable {
        let now: Date
        /// The time of the newest record, which the daemon disregards after the acceptance; nil unless that time is
        /// ahead of the clock.
        let newestRecord: Date?
        let forgottenBefore: Date?
        /// The fence, which replaces the ledger's ``forgottenBefore``; nil if ``forgottenBefore`` stays unchanged. A
        /// shared ledger may set a later fence than the planned one.
        var servedFrom: Date?
    }

    enum Outcome: Sendable {
        case accepted(Plan)
        case pending(Approval)
        /// The dry run found no reason to refuse the acceptance.
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
        guard rule.needsSecondPerson(caller) else {
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

    /// Carries out an approved acceptance, in one transaction with the approval. The fence is computed from the time of the
    /// approval, not of the request.
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

    /// Returns the digest that an approval covers. The digest includes the ledger's times that are ahead of the clock.
    /// An approval therefore does not permit accepting any other times.
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
                    "A signing_time_window is off, so the signing times of pruned claims have no limit. Set the window, "
                        + "at least until the clock is accepted.", details: "signing_time_window"
                )
            }
            let newest = max(comparison.now, newestRelease ?? comparison.now)
            // The fence is rounded up to whole seconds. An answer rounds times down, so it would otherwise state an
            // earlier fence.
            let served = (newest.timeIntervalSince1970 + window / .seconds(1)).rounded(.up)
            if served < forgotten.timeIntervalSince1970 { fence = Date(timeIntervalSince1970: served) }
        }
        guard fence != nil || comparison.recordAhead != nil else {
            let details = comparison.forgottenAhead.map {
                "payment tokens signed from \(RFC3339.string($0)) on are served"
            }
            throw Refusal(
                .invalidState,
                "The clock says \(RFC3339.string(comparison.now)), and nothing that acceptance can correct is ahead of "
                    + "it; there is nothing to accept.", details: details)
        }
        return (
            Plan(
                now: comparison.now, newestRecord: comparison.recordAhead,
                forgottenBefore: fence == nil ? nil : comparison.forgottenAhead, servedFrom: fence), comparison.times
        )
    }

    /// - Returns: the plan, in which ``Plan/servedFrom`` is the fence that the ledger has set.
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

/// Takes an older ledger into service although the HSM token remembers a newer one. A second person must approve.
struct RestoreAcceptance: RestoreAccepting {
    enum Outcome: Sendable {
        /// The restore was accepted. The values are the ledger's last sequence, the sequence that the HSM token
        /// remembered, and the fence.
        case accepted(ledgerSequence: Int, hsmTokenSequence: Int?, servedFrom: Date?)
        case pending(Approval)
        /// The dry run found no reason to refuse the acceptance.
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
                details: "withoutFinding sets the fence anyway, to cover what a lost process did in its last minute")
        }
        try await gate.requireBoundedWindows()
        guard !dryRun else {
            return .wouldAccept(
                ledgerSequence: try await gate.examineRestore(matter).ledgerSequence,
                hsmTokenSequence: matter.rememberedSequence)
        }
        guard rule.needsSecondPerson(caller) else {
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

// MARK: The routes' interfaces

/// The operation with which a route takes a ledger into service, although the ledger disagrees with the HSM token.
protocol RestoreAccepting: Sendable {
    /// Checks that the restore may be accepted. Then records the acceptance, or requests a second person's approval.
    ///
    /// - Parameter withoutFinding: true to set the fence even if ledger and HSM token agree.
    /// - Throws: invalid_state if there is nothing to accept, if a signing-time window is off on any node, or if the
    ///   HSM token cannot seal the ledger's record even after an acceptance.
    func accept(
        reason: AuditReason, withoutFinding: Bool, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> RestoreAcceptance.Outcome
}

/// The operation with which a route accepts the daemon's clock, although the ledger contains later times.
protocol ClockAccepting: Sendable {
    /// Checks that the clock may be accepted. Then records the acceptance, or requests a second person's approval.
    ///
    /// - Throws: invalid_state if there is nothing to accept, or if a signing-time window that the fence needs is off.
    func accept(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> ClockAcceptance.Outcome
}
