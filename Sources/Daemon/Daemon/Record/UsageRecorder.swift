import AccessControl
import AuditChain
import DaemonAPI
import DaemonConfiguration
import KeyTypes
import Ledger
import Locks
import MerchantKeys
import PaymentToken
import ProductVersion
import Refusals
import ServerProgram
import Telemetry

// The key-usage record: which caller did what with which key. It is a hash chain in the ledger, which the HSM token's audit
// key seals.
//
// Each request has an AuditDraft, which collects the facts of the request. UsageRecorder turns it into an audit record and
// writes that before the answer leaves. RefusalTally counts floods of refusals, and refusals before the caller is known.
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
struct UsageRecorder: AuditReadRecording {
    let ledger: any Ledger
    let tally: RefusalTally
    let faults: FaultLog
    let clock: WallClock

    /// Returns the audit record of a request, from the facts that are known so far.
    func auditRecord(of draft: AuditDraft, by caller: Caller?, outcome: AuditOutcome = .ok) -> AuditRecord {
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
    func reference(_ sequence: Int?) -> AuditReference? {
        sequence.map { AuditReference(node: ledger.node, sequence: $0) }
    }

    /// Counts a refusal of an authorized caller if it must not get its own record, because the caller has had too many
    /// refusals in this minute (``RefusalTally``).
    ///
    /// - Returns: true if the refusal was counted. It must then not be recorded.
    func counts(_ code: RefusalCode, of draft: AuditDraft, by caller: Caller) -> Bool {
        draft.sequence == nil && tally.counts(code, of: draft.facts, by: caller)
    }

    /// Records a refusal of an authorized caller.
    ///
    /// If the record cannot be written, the refusal keeps its own code, and the ledger counts the record as lost.
    func refused(_ draft: AuditDraft, by caller: Caller, _ code: RefusalCode) async -> AuditReference? {
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
    func append(_ auditRecord: AuditRecord) async throws(Refusal) -> Int {
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
    func append(_ auditRecords: [AuditRecord]) async throws(Refusal) -> [Int] {
        do throws(LedgerFailure) {
            return try await ledger.apply(AdministrativeChange(at: clock.now(), records: auditRecords))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Commits an administrative change together with its records. The last of these becomes the request's
    /// audit record.
    func apply(_ change: AdministrativeChange, for draft: AuditDraft) async throws(Refusal) {
        draft.recorded(at: try await refusing(ledger: await ledger.apply(change)).last)
    }

    /// Stores a request for a second person's approval.
    ///
    /// - Returns: the stored request.
    func ask(_ approval: Approval, by caller: Caller, for draft: AuditDraft) async throws(Refusal) -> Approval {
        draft.setEvent(.approvalRequest(ApprovalRequest(approval)))
        try await apply(
            AdministrativeChange(
                at: clock.now(), approval: .request(approval), records: [auditRecord(of: draft, by: caller)]),
            for: draft)
        return approval
    }

    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int {
        request.draft.setEvent(event)
        let sequence = try await append(auditRecord(of: request.draft, by: request.caller))
        request.draft.recorded(at: sequence)
        return sequence
    }
}

/// The interface for recording each read of the key-usage record.
protocol AuditReadRecording: Sendable {
    /// Records durably that the caller reads the record, before any record is shown.
    ///
    /// - Returns: the sequence of the audit record of the read.
    /// - Throws: ledger_unavailable or overloaded. Nothing must then be shown.
    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int
}

/// Records the daemon's start, its configurations and its stop.
struct LifecycleRecords: Sendable {
    let recorder: UsageRecorder
    let programs: ProgramFiles
    let clock: WallClock

    /// Records the daemon's start and its configuration.
    /// - Throws: if they cannot be recorded. The daemon then does not start.
    func started(with configuration: Configuration) async throws(StartFailure) {
        var configuration = configuration
        configuration.readCredentials()
        try await append(
            [
                .start(version: AuditText(ProductVersion.current), programs: programs.digests),
                .configurationLoad(file: configuration.fileDigest),
            ] + configuration.recordedValues.events())
    }

    /// Records a reloaded configuration, before it takes effect.
    ///
    /// - Parameters:
    ///   - values: the values that will be in force. Nil if the record already has them with this file digest.
    ///   - requester: the person who requested the reload; nil at SIGHUP.
    /// - Throws: if it cannot be recorded. The old configuration then stays in force.
    func reloaded(
        _ file: AuditDigest, values: ConfigurationValues?, by requester: ConfigurationReload.Requester? = nil
    ) async throws(StartFailure) {
        let sequences = try await append(
            [.configurationReload(file: file)] + (values?.events() ?? []),
            by: requester.map { AuditCaller($0.caller) })
        requester?.draft.recorded(at: sequences.first)
    }

    /// Records an HSM token's PKCS#11 library if it has changed since it was last recorded. Called before the worker
    /// serves.
    func opened(hsmToken: String) {
        guard let event = programs.changed(hsmToken: hsmToken) else { return }
        recorder.ledger.note(
            AuditRecord(time: AuditTime(clock.now()), event: event, hsmToken: AuditText(hsmToken)))
    }

    /// Records the programs' files once a week, from a week after the start on.
    func startReadingPrograms(every pause: Duration = .seconds(7 * 86_400)) -> Task<Void, Never> {
        Task {
            while (try? await Task.sleep(for: pause)) != nil {
                recorder.ledger.note(
                    AuditRecord(time: AuditTime(clock.now()), event: .programDigests(programs.readAgain())))
            }
        }
    }

    /// Records that a worker generated key pairs for its self-tests and stored them in the HSM token.
    func madeTestKeys(_ count: Int, hsmToken: String) {
        guard count > 0 else { return }
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .testKeysCreate(count: count), hsmToken: AuditText(hsmToken)))
    }

    func reloadRefused() async {
        recorder.ledger.note(
            AuditRecord(
                time: AuditTime(clock.now()), event: .configurationReload(file: nil),
                outcome: .refused(.malformedRequest)))
    }

    /// Records the daemon's stop, as the last record. An audit checkpoint then seals it.
    func stopped() async {
        do throws(Refusal) {
            try await recorder.append(AuditRecord(time: AuditTime(clock.now()), event: .stop))
        } catch {
            // The ledger has already logged its fault, and the daemon stops even if its stop is not recorded.
        }
    }

    /// Appends all events or none. Otherwise a `configuration_load` record could be without the record of its values,
    /// like one that an older version of the daemon wrote.
    @discardableResult
    private func append(_ events: [AuditEvent], by caller: AuditCaller? = nil) async throws(StartFailure) -> [Int] {
        let time = AuditTime(clock.now())
        do throws(Refusal) {
            return try await recorder.append(events.map { AuditRecord(time: time, event: $0, caller: caller) })
        } catch {
            throw StartFailure(
                .tryAgainLater,
                "The start or the configuration could not be recorded, because the ledger cannot be written at "
                    + "present.")
        }
    }
}

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
