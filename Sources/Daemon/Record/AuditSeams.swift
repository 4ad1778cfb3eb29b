import AuditChain
import Refusals

/// Records looks into the record itself.
protocol AuditLooking: Sendable {
    /// Durable when it answers; only then is anything shown.
    ///
    /// - Returns: the look's own sequence.
    /// - Throws: ledger_unavailable or overloaded, and then nothing is shown.
    @discardableResult
    func look(_ event: AuditEvent, by request: EndpointRequest) async throws(Refusal) -> Int
}

/// Seals the record with the token's audit key.
protocol CheckpointSealing: Sendable {
    /// A stored checkpoint of all that is recorded now; nil when nothing is.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    @discardableResult
    func seal() async throws(Refusal) -> SignedCheckpoint?

    /// The public halves of all keys that ever signed this ledger's checkpoints, the oldest first.
    func keys() async throws(Refusal) -> [CheckpointKey]

    /// What the token remembers of this node's chain; nil when nothing.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    func remembered() async throws(Refusal) -> SignedCheckpoint?
}

/// Takes a ledger into service with which the token disagrees.
protocol RestoreAccepting: Sendable {
    /// Judges whether it can and may be taken, and records it, or has it wait for a second person.
    ///
    /// - Throws: invalid_state when there is nothing to accept, or accepting cannot help.
    func accept(
        reason: AuditReason, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> RestoreAcceptance.Outcome
}

/// Takes the present clock for right, against what the ledger says about the time.
protocol ClockAccepting: Sendable {
    /// Judges whether it can and may be accepted, and records it, or has it wait for a second person.
    ///
    /// - Throws: invalid_state when there is nothing to accept, or a signing-time window is off that would have to bound it.
    func accept(
        reason: AuditReason, by caller: Caller, dryRun: Bool, draft: AuditDraft
    ) async throws(Refusal) -> ClockAcceptance.Outcome
}

extension UsageRecorder: AuditLooking {}
extension Checkpoints: CheckpointSealing {}
extension RestoreAcceptance: RestoreAccepting {}
extension ClockAcceptance: ClockAccepting {}
