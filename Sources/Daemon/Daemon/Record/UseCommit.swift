import AuditChain
import DaemonAPI
import Ledger
import Refusals

/// The commit that a payment or a TLS signature is answered after: key state, use and audit record in one transaction.
struct UseCommit: Sendable {
    let gate: LedgerGate
    let recorder: UsageRecorder
    let instruments: Instruments
    /// The longest that an answer may come after its commit has begun: `ledger.timeout`.
    let answerTime: Duration

    var ledger: any Ledger { recorder.ledger }
    var faults: FaultLog { recorder.faults }

    struct Outcome<Verdict: Sendable>: Sendable {
        let verdict: Verdict
        /// nil where the ledger had no room for the record: a replay is refused all the same.
        let audit: AuditReference?
        /// The answer would come too late. A process that stood still in between knows a state of the key that may have ended
        /// since, on another host too.
        let isTooLate: Bool
    }

    /// Durable when it returns.
    ///
    /// - Parameters:
    ///   - refusal: how a failure of the ledger is answered.
    ///   - write: writes the use with its audit record, and returns the record's sequence.
    func make<Verdict>(
        of draft: AuditDraft, by caller: Caller, refusal: (LedgerFailure) -> Refusal,
        _ write: (any Ledger, AuditRecord) async throws(LedgerFailure) -> (verdict: Verdict, sequence: Int?)
    ) async throws(Refusal) -> Outcome<Verdict> {
        try gate.admit()
        let started = ContinuousClock.now
        let written: (verdict: Verdict, sequence: Int?)
        do throws(LedgerFailure) {
            written = try await write(ledger, recorder.auditRecord(of: draft, by: caller))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw refusal(error)
        }
        if written.sequence != nil { faults.ended(FaultLog.ledger) }
        let took = started.duration(to: .now)
        instruments.ledgerCommitSeconds.observe(took)
        draft.recorded(at: written.sequence)
        return Outcome(
            verdict: written.verdict, audit: recorder.reference(written.sequence), isTooLate: took > answerTime)
    }
}
