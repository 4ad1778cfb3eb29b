import AuditChain
import DaemonAPI
import Ledger
import ProductVersion
import Refusals

/// Writes what requests did into the ledger's record.
struct UsageRecorder: Sendable {
    let ledger: any Ledger
    let tally: RefusalTally
    let faults: FaultLog
    let clock: WallClock

    /// The record of a request as far as it is known.
    func auditRecord(of draft: AuditDraft, by caller: Caller?, outcome: AuditOutcome = .ok) -> AuditRecord {
        let facts = draft.facts
        return AuditRecord(
            time: AuditTime(clock.now()), event: facts.event, outcome: outcome, caller: caller.map(AuditCaller.init),
            merchant: facts.merchant, publicKeyHash: facts.publicKeyHash, transactionId: facts.transactionId,
            protection: facts.protection, token: facts.hsmToken)
    }

    /// Where something stands in the record.
    func reference(_ sequence: Int?) -> AuditReference? {
        sequence.map { AuditReference(node: ledger.node, sequence: $0) }
    }

    /// Records that a caller who may call this was refused.
    ///
    /// A refusal keeps its own code when its record cannot be written; the ledger counts what it could not take.
    func refused(_ draft: AuditDraft, by caller: Caller, _ code: RefusalCode) async -> AuditReference? {
        if let sequence = draft.sequence { return reference(sequence) }
        let auditRecord = auditRecord(of: draft, by: caller, outcome: .refused(code))
        // Nobody waits for a disk that is known to be full.
        guard !faults.isOngoing(FaultLog.ledger) else {
            ledger.note(record)
            return nil
        }
        do throws(LedgerFailure) {
            return reference(try await ledger.append(record))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            // What may be written yet is not to stand there twice; the ledger counts it if it is not written.
            if case .timedOut(_, mayStand: true) = error { return nil }
            ledger.note(record)
            return nil
        }
    }

    /// Records what is about to be answered, so that nothing is shown or done that is not in the record.
    ///
    /// - Throws: ledger_unavailable, and then it must not be shown or done.
    @discardableResult
    func append(_ record: AuditRecord) async throws(Refusal) -> Int {
        do throws(LedgerFailure) {
            return try await ledger.append(record)
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Makes an administrative change together with its records, and tells the request where the last of them stands.
    func apply(_ change: AdministrativeChange, for draft: AuditDraft) async throws(Refusal) {
        do throws(LedgerFailure) {
            draft.recorded(at: try await ledger.apply(change).last)
        } catch {
            throw error.refusal
        }
    }

    /// Has an operation wait for a second person.
    func ask(_ approval: Approval, by caller: Caller, for draft: AuditDraft) async throws(Refusal) {
        draft.is(.approvalRequest(ApprovalRequest(approval)))
        try await apply(
            AdministrativeChange(
                at: clock.now(), approval: .request(approval), records: [auditRecord(of: draft, by: caller)]),
            for: draft)
    }

    /// Records a look into the record itself.
    ///
    /// - Throws: ledger_unavailable, and then nothing is shown.
    @discardableResult
    func look(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int {
        request.draft.is(event)
        let sequence = try await append(auditRecord(of: request.draft, by: request.caller))
        request.draft.recorded(at: sequence)
        return sequence
    }
}

/// The records of the daemon's own life: start, configuration, stop.
struct LifeRecords: Sendable {
    let recorder: UsageRecorder
    let clock: WallClock

    /// - Throws: when they cannot be recorded; then the daemon does not start.
    func started(with configuration: AuditDigest) async throws(StartFailure) {
        try await append(.start(version: AuditText(ProductVersion.current)))
        try await append(.configurationLoad(file: configuration))
    }

    /// To be called before the configuration is in force.
    ///
    /// - Throws: when it cannot be recorded; then the old one stays in force.
    func reloaded(_ configuration: AuditDigest) async throws(StartFailure) {
        try await append(.configurationReload(file: configuration))
    }

    func reloadRefused() async {
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .configurationReload(file: nil),
                outcome: .refused(.malformedRequest)))
    }

    /// The last record; a checkpoint seals it.
    func stopped() async {
        do throws(StartFailure) {
            try await append(.stop)
        } catch {
            // The ledger's trouble has been logged, and a stop is not to be refused.
        }
    }

    private func append(_ event: AuditEvent) async throws(StartFailure) {
        do throws(Refusal) {
            try await recorder.append(AuditRecord(time: AuditTime(clock.now()), event: event))
        } catch {
            throw StartFailure(
                .tryAgainLater,
                "The ledger does not take the record of the start or the configuration: it cannot be "
                    + "written at present.")
        }
    }
}
