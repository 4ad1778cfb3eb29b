package import AuditChain
package import DaemonAPI
package import DaemonConfiguration
package import Foundation
package import Ledger
package import Refusals
package import Telemetry

// The key-usage record: which caller did what with which key. It is a hash chain in the ledger, which the HSM token's audit
// key seals.
//
// Each request has an AuditDraft, which collects the facts of the request. UsageRecorder turns it into an audit record and
// writes that before the answer leaves. UseCommit writes it together with the use of a key. RefusalTally counts floods of
// refusals, and refusals before the caller is known.
//
// Checkpoints has the HSM token sign the end of the chain. LedgerGate releases nothing before ledger and HSM token have
// been compared (LedgerEvidence). AuditExports exports the record, and LedgerCopy a copy of the whole ledger.
//
// NodeChains has the records of all nodes of a shared ledger. ExportPart is one node's part of an export, and
// MergedRecords a list of several nodes' records. OtherNodesAuditKeys keeps the trusted keys for verifying other nodes'
// records.
//
// Start here, then read LedgerGate. The chain itself (lines, hashes, verification) is in the target AuditChain.

/// Writes an audit record for each request.
package struct UsageRecorder: Sendable {
    package let ledger: any Ledger
    package let tally: RefusalTally
    package let faults: FaultLog
    package let clock: WallClock

    package init(ledger: any Ledger, tally: RefusalTally, faults: FaultLog, clock: WallClock) {
        (self.ledger, self.tally, self.faults, self.clock) = (ledger, tally, faults, clock)
    }

    /// Returns the audit record of a request, from the facts that are known so far.
    package func auditRecord(of draft: AuditDraft, by caller: Caller?, outcome: AuditOutcome = .ok) -> AuditRecord {
        let facts = draft.facts
        return AuditRecord(
            time: AuditTime(clock.now()), event: facts.event, outcome: outcome, caller: caller.map(AuditCaller.init),
            merchant: facts.merchant, publicKeyHash: facts.publicKeyHash, transactionId: facts.transactionId,
            protection: facts.protection, hsmToken: facts.hsmToken,
            hsmWasNotReached: outcome.leavesUseOpen && !facts.mayHaveReachedHSM
                && [.decrypt, .tlsSignature, .jwtSignature, .keyProof].contains(facts.event.name),
            trace: facts.trace)
    }

    /// Returns the reference of this node's audit record with this sequence; nil if `sequence` is nil.
    package func reference(_ sequence: Int?) -> AuditReference? {
        sequence.map { AuditReference(node: ledger.node, sequence: $0) }
    }

    /// Counts a refusal of an authorized caller if it must not get its own record, because the caller has had too many
    /// refusals in this minute (``RefusalTally``).
    ///
    /// - Returns: true if the refusal was counted. It must then not be recorded.
    package func counts(_ code: RefusalCode, of draft: AuditDraft, by caller: Caller) -> Bool {
        draft.sequence == nil && tally.counts(code, of: draft.facts, by: caller)
    }

    /// Records a refusal of an authorized caller.
    ///
    /// If the record cannot be written, the refusal keeps its own code, and the ledger counts the record as lost.
    package func refused(_ draft: AuditDraft, by caller: Caller, _ code: RefusalCode) async -> AuditReference? {
        if let sequence = draft.sequence { return reference(sequence) }
        let auditRecord = auditRecord(of: draft, by: caller, outcome: .refused(code))
        // While the ledger is known to fail, for example on a full disk, the refusal must not wait for a commit.
        guard !faults.isOngoing(FaultLog.ledger) else {
            ledger.note(auditRecord)
            return nil
        }
        do throws(LedgerFailure) {
            return reference(try await ledger.append(auditRecord))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            // The ledger may still write this record, so noting it again could write it twice. If it is not written, the
            // ledger counts it as lost.
            if case .timedOut(_, mayBeWritten: true) = error { return nil }
            ledger.note(auditRecord)
            return nil
        }
    }

    /// Records a request before it is answered. So nothing is shown or done that is not in the record.
    ///
    /// - Throws: ledger_unavailable. The caller must then not show the answer or perform the operation.
    @discardableResult
    package func append(_ auditRecord: AuditRecord) async throws(Refusal) -> Int {
        do throws(LedgerFailure) {
            return try await ledger.append(auditRecord)
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Appends records that belong together. Either all of them are written, in this order, or none.
    ///
    /// - Returns: the sequences of the records, in order.
    @discardableResult
    package func append(_ auditRecords: [AuditRecord]) async throws(Refusal) -> [Int] {
        do throws(LedgerFailure) {
            return try await ledger.apply(AdministrativeChange(at: clock.now(), records: auditRecords))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Commits an administrative change together with its records. The last of these becomes the request's
    /// audit record.
    package func apply(_ change: AdministrativeChange, for draft: AuditDraft) async throws(Refusal) {
        draft.recorded(at: try await refusing(ledger: await ledger.apply(change)).last)
    }

    /// Stores a request for a second person's approval.
    ///
    /// - Returns: the stored request.
    package func ask(_ approval: Approval, by caller: Caller, for draft: AuditDraft) async throws(Refusal) -> Approval {
        draft.setEvent(.approvalRequest(ApprovalRequest(approval)))
        try await apply(
            AdministrativeChange(
                at: clock.now(), approval: .request(approval), records: [auditRecord(of: draft, by: caller)]),
            for: draft)
        return approval
    }
}

/// Commits the use of a key before the daemon answers the request for a payment or a TLS signature. One transaction checks
/// the key's state, and writes the use and its audit record.
package struct UseCommit: Sendable {
    package let gate: LedgerGate
    package let recorder: UsageRecorder
    /// The metric of the commits' durations.
    private let seconds: Histogram<0>
    /// The maximum time from the start of a commit until its answer may leave: `ledger.timeout`.
    private let answerTime: Duration

    package init(gate: LedgerGate, recorder: UsageRecorder, seconds: Histogram<0>, answerTime: Duration) {
        (self.gate, self.recorder, self.seconds, self.answerTime) = (gate, recorder, seconds, answerTime)
    }

    package struct Outcome<Verdict: Sendable>: Sendable {
        package let verdict: Verdict
        /// The reference of the use's audit record. Nil if the verdict is a refusal, and the ledger could not write its
        /// audit record, for example on a full disk. The refusal keeps its code, for example that of a replay.
        package let audit: AuditReference?
        /// True if the commit took so long that the answer must not leave. The process may have been suspended, and the
        /// key's state may have changed since, even on another host.
        package let isTooLate: Bool
    }

    /// Commits the use durably.
    ///
    /// - Parameters:
    ///   - refusal: a function that returns the refusal for a failure of the ledger.
    ///   - write: a function that writes the use with its audit record, and returns that record's sequence.
    package func make<Verdict: Sendable>(
        of draft: AuditDraft, by caller: Caller, refusal: (LedgerFailure) -> Refusal,
        _ write: (any Ledger, AuditRecord) async throws(LedgerFailure) -> (verdict: Verdict, sequence: Int?)
    ) async throws(Refusal) -> Outcome<Verdict> {
        try gate.admit()
        let started = ContinuousClock.now
        let written: (verdict: Verdict, sequence: Int?)
        do throws(LedgerFailure) {
            written = try await write(recorder.ledger, recorder.auditRecord(of: draft, by: caller))
        } catch {
            recorder.faults.began(FaultLog.ledger, error.description)
            throw refusal(error)
        }
        if written.sequence != nil { recorder.faults.ended(FaultLog.ledger) }
        let took = started.duration(to: .now)
        seconds.observe(took)
        draft.recorded(at: written.sequence)
        return Outcome(
            verdict: written.verdict, audit: recorder.reference(written.sequence), isTooLate: took > answerTime)
    }
}

/// The source of the current time. Tests replace it.
package struct WallClock: Sendable {
    package let now: @Sendable () -> Date

    package static let system = WallClock { Date() }
}

extension ApprovalRequest {
    package init(_ approval: Approval) {
        self.init(
            approval: approval.identifier, operation: approval.operation, parameters: approval.parameters,
            reason: approval.reason, expires: AuditTime(approval.expires))
    }
}
