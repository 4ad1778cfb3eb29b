import AuditChain
import DaemonAPI
import DaemonConfiguration
import Ledger
import Refusals
import UsageRecording

/// Commits the use of a key before the daemon answers the request for a payment or a TLS signature. One transaction checks
/// the key's state, and writes the use and its audit record.
struct UseCommit: Sendable {
    let gate: LedgerGate
    let recorder: UsageRecorder
    let instruments: Instruments
    /// The maximum time from the start of a commit until its answer may leave: `ledger.timeout`.
    let answerTime: Duration

    var ledger: any Ledger { recorder.ledger }
    var faults: FaultLog { recorder.faults }

    struct Outcome<Verdict: Sendable>: Sendable {
        let verdict: Verdict
        /// The reference of the use's audit record. Nil if the verdict is a refusal, and the ledger could not write its
        /// audit record, for example on a full disk. The refusal keeps its code, for example that of a replay.
        let audit: AuditReference?
        /// True if the commit took so long that the answer must not leave. The process may have been suspended, and the
        /// key's state may have changed since, even on another host.
        let isTooLate: Bool
    }

    /// Commits the use durably.
    ///
    /// - Parameters:
    ///   - refusal: a function that returns the refusal for a failure of the ledger.
    ///   - write: a function that writes the use with its audit record, and returns that record's sequence.
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
