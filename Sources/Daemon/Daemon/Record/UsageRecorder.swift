import AccessControl
import AuditChain
import DaemonAPI
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import ProductVersion
import Refusals
import ServerProgram
import Synchronization
import Telemetry

// The key-usage record: which caller did what with which key, as a hash chain in the ledger that the HSM token's audit
// key seals.
//
// Every request carries an AuditDraft, which collects the facts of the request. UsageRecorder turns it into an audit
// record and writes that before the answer leaves. RefusalTally counts floods and what is refused before the caller is
// known.
//
// Checkpoints has the HSM token sign the chain's end, and LedgerGate releases nothing before ledger and HSM token have
// been compared (LedgerEvidence). AuditExports and LedgerCopy produce exports: the record, and a copy of the whole
// ledger.
//
// NodeChains are the records of all nodes of a shared ledger. ExportPart is one node's part of an export, and
// MergedRecords a list of all. OtherNodesAuditKeys keeps the trusted keys by which they are verified.
//
// Start here, then read LedgerGate. The chain itself (lines, hashes, verification) is the target AuditChain.

/// Writes requests into the ledger's record.
struct UsageRecorder: AuditReadRecording {
    let ledger: any Ledger
    let tally: RefusalTally
    let faults: FaultLog
    let clock: WallClock

    /// Returns a request's audit record with the facts known so far.
    func auditRecord(of draft: AuditDraft, by caller: Caller?, outcome: AuditOutcome = .ok) -> AuditRecord {
        let facts = draft.facts
        return AuditRecord(
            time: AuditTime(clock.now()), event: facts.event, outcome: outcome, caller: caller.map(AuditCaller.init),
            merchant: facts.merchant, publicKeyHash: facts.publicKeyHash, transactionId: facts.transactionId,
            protection: facts.protection, hsmToken: facts.hsmToken,
            hsmWasNotReached: outcome.leavesUseOpen && !facts.mayHaveReachedHSM
                && [.decrypt, .tlsSignature].contains(facts.event.name),
            trace: facts.trace)
    }

    /// Returns the reference of an audit record.
    func reference(_ sequence: Int?) -> AuditReference? {
        sequence.map { AuditReference(node: ledger.node, sequence: $0) }
    }

    /// Counts a refusal of an authorized caller if it is one of too many, which are recorded in summary
    /// (``RefusalTally``).
    ///
    /// - Returns: true if it was counted, and must not be recorded individually.
    func counts(_ code: RefusalCode, of draft: AuditDraft, by caller: Caller) -> Bool {
        draft.sequence == nil && tally.counts(code, of: draft.facts, by: caller)
    }

    /// Records a refusal of an authorized caller.
    ///
    /// A refusal keeps its own code when its record cannot be written; the ledger counts the records that it could not
    /// write.
    func refused(_ draft: AuditDraft, by caller: Caller, _ code: RefusalCode) async -> AuditReference? {
        if let sequence = draft.sequence { return reference(sequence) }
        let auditRecord = auditRecord(of: draft, by: caller, outcome: .refused(code))
        // Do not wait for a disk that is known to be full.
        guard !faults.isOngoing(FaultLog.ledger) else {
            ledger.note(auditRecord)
            return nil
        }
        do throws(LedgerFailure) {
            return reference(try await ledger.append(auditRecord))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            // The ledger may still write this record, and must not contain it twice. If it is not written, the ledger
            // counts it.
            if case .timedOut(_, mayBeWritten: true) = error { return nil }
            ledger.note(auditRecord)
            return nil
        }
    }

    /// Records a request before it is answered, so that nothing is shown or done that is not in the record.
    ///
    /// - Throws: ledger_unavailable; the answer must then not be shown, and the operation not done.
    @discardableResult
    func append(_ auditRecord: AuditRecord) async throws(Refusal) -> Int {
        do throws(LedgerFailure) {
            return try await ledger.append(auditRecord)
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Appends records that belong together: all of them are written, in their order, or none.
    func append(_ auditRecords: [AuditRecord]) async throws(Refusal) {
        do throws(LedgerFailure) {
            try await ledger.apply(AdministrativeChange(at: clock.now(), records: auditRecords))
        } catch {
            faults.began(FaultLog.ledger, error.description)
            throw error.refusal
        }
    }

    /// Makes an administrative change together with its records, and sets the request's sequence to that of the last
    /// one.
    func apply(_ change: AdministrativeChange, for draft: AuditDraft) async throws(Refusal) {
        draft.recorded(at: try await refusing(ledger: await ledger.apply(change)).last)
    }

    /// Stores a request for a second person's approval.
    ///
    /// - Returns: the request as stored.
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

/// Records reads of the record itself.
protocol AuditReadRecording: Sendable {
    /// Records the read durably before anything is shown.
    ///
    /// - Returns: the sequence of the read's own record.
    /// - Throws: ledger_unavailable or overloaded; nothing is then shown.
    @discardableResult
    func recordRead(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int
}

/// The records of the daemon's lifecycle: start, configuration, stop.
struct LifecycleRecords: Sendable {
    let recorder: UsageRecorder
    let programs: ProgramFiles
    let clock: WallClock

    /// Records the daemon's start and its configuration.
    /// - Throws: when they cannot be recorded; the daemon then does not start.
    func started(with configuration: Configuration) async throws(StartFailure) {
        try await append(
            [
                .start(version: AuditText(ProductVersion.current), programs: programs.digests),
                .configurationLoad(file: configuration.fileDigest),
            ] + configuration.recordedValues.events())
    }

    /// Records a reloaded configuration. Must be called before it takes effect.
    ///
    /// - Parameter values: the values that will be in force; nil if the record already has them, with the file's
    ///   digest.
    /// - Throws: when it cannot be recorded; the old configuration then stays in force.
    func reloaded(_ file: AuditDigest, values: ConfigurationValues?) async throws(StartFailure) {
        try await append([.configurationReload(file: file)] + (values?.events() ?? []))
    }

    /// Records a PKCS#11 library that has changed since it was last recorded. Must be called before the worker serves.
    func opened(hsmToken: String) {
        guard let event = programs.changed(hsmToken: hsmToken) else { return }
        recorder.ledger.note(
            AuditRecord(time: AuditTime(clock.now()), event: event, hsmToken: AuditText(hsmToken)))
    }

    /// Records key pairs for self-tests that a worker has made and the HSM token keeps.
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

    /// Appends the last record, which an audit checkpoint seals.
    func stopped() async {
        do throws(Refusal) {
            try await recorder.append(AuditRecord(time: AuditTime(clock.now()), event: .stop))
        } catch {
            // The ledger's fault has been logged, and a stop is not refused.
        }
    }

    /// Appends all events or none: a load without its values would look like one of an older version.
    private func append(_ events: [AuditEvent]) async throws(StartFailure) {
        let time = AuditTime(clock.now())
        do throws(Refusal) {
            try await recorder.append(events.map { AuditRecord(time: time, event: $0) })
        } catch {
            throw StartFailure(
                .tryAgainLater,
                "The start or the configuration could not be recorded, because the ledger cannot be written at "
                    + "present.")
        }
    }
}

/// The commit that precedes the answer to a payment or a TLS signature: key state, use and audit record in one
/// transaction.
struct UseCommit: Sendable {
    let gate: LedgerGate
    let recorder: UsageRecorder
    let instruments: Instruments
    /// The longest time from the start of a commit to its answer: `ledger.timeout`.
    let answerTime: Duration

    var ledger: any Ledger { recorder.ledger }
    var faults: FaultLog { recorder.faults }

    struct Outcome<Verdict: Sendable>: Sendable {
        let verdict: Verdict
        /// The reference of the use's audit record; nil if the ledger had no room for it. A replay is refused all the
        /// same.
        let audit: AuditReference?
        /// True if the answer would come too late. If the process was suspended in between, the key's state may have
        /// changed, on another host too.
        let isTooLate: Bool
    }

    /// Commits the use durably.
    ///
    /// - Parameters:
    ///   - refusal: maps a failure of the ledger to the refusal that answers it.
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

/// The audit record of a request in progress. A refused request is recorded with what was known at the refusal.
///
/// It can contain only identifiers, digests and words from closed sets, so no part of a request body can get into it.
final class AuditDraft: Sendable {
    /// The facts known so far.
    struct Facts: Sendable, Equatable {
        /// `request` until the endpoint sets its own event.
        var event = AuditEvent.request
        var merchant: AuditText?
        var publicKeyHash: AuditDigest?
        var transactionId: AuditDigest?
        var protection: AuditProtection?
        var hsmToken: AuditText?
        /// True once a key may have been used, even if no HSM token has answered.
        var mayHaveReachedHSM = false
        /// The value of the caller's `traceparent` header.
        var trace: AuditTrace?
    }

    private let state: Mutex<(facts: Facts, sequence: Int?)>

    init(trace: CallersTrace? = nil) {
        var facts = Facts()
        facts.trace = trace.flatMap {
            AuditTrace(traceId: $0.traceIdentifier, parentId: $0.parentIdentifier)
        }
        state = Mutex((facts: facts, sequence: nil))
    }

    var facts: Facts { state.withLock { $0.facts } }

    /// The sequence of the audit record, if one was already made in the transaction of the operation.
    var sequence: Int? { state.withLock { $0.sequence } }

    func setEvent(_ event: AuditEvent) {
        state.withLock { $0.facts.event = event }
    }

    func setSubject(_ paymentToken: PaymentToken) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: paymentToken.publicKeyHash.bytes)
            $0.facts.transactionId = AuditDigest(bytes: paymentToken.transactionIdentifier.bytes)
        }
    }

    func setSubject(key: PublicKeyHash) {
        state.withLock { $0.facts.publicKeyHash = AuditDigest(bytes: key.bytes) }
    }

    func setSubject(_ key: KeyEntry) {
        state.withLock {
            $0.facts.publicKeyHash = AuditDigest(bytes: key.publicKeyHash.bytes)
            $0.facts.merchant = key.merchantIdentifier.isEmpty ? nil : AuditText(key.merchantIdentifier)
        }
    }

    func setSubject(merchant: String) {
        state.withLock { $0.facts.merchant = AuditText(merchant) }
    }

    func used(hsmToken: String, protection: ProtectionTier) {
        state.withLock {
            $0.facts.hsmToken = AuditText(hsmToken)
            $0.facts.protection = AuditProtection(protection)
        }
    }

    func used(hsmToken: String) {
        state.withLock { $0.facts.hsmToken = AuditText(hsmToken) }
    }

    func mayHaveReachedHSM(_ mayHave: Bool) {
        state.withLock { $0.facts.mayHaveReachedHSM = mayHave }
    }

    func recorded(at sequence: Int?) {
        state.withLock { $0.sequence = sequence }
    }
}

extension AuditProtection {
    init(_ tier: ProtectionTier) {
        self =
            switch tier {
            case .a: .a
            case .b: .b
            case .c: .c
            }
    }
}

extension AuditCaller {
    /// The audit caller for a peer that a rule matched.
    init(_ caller: Caller) {
        self.init(caller.peer, name: AuditText(caller.name))
    }

    /// - Parameter name: the rule's name; nil for a peer that no rule matched.
    init(_ peer: PeerCredentials, name: AuditText?) {
        self.init(
            name: name, uid: peer.uid, gid: peer.gid, loginUID: peer.loginUID.number,
            pid: peer.pid > 0 ? peer.pid : nil,
            comm: peer.comm.map { AuditText($0) })
    }
}
