import AuditChain
import Foundation
import Ledger
import Logging
import Refusals
import Synchronization
import WorkerProtocol

/// The write gate of the ledger: nothing is released or changed before the ledger has been compared with what the HSM token
/// remembers. A ledger that was lost or rolled back has forgotten claims, and in it keys decrypt that were suspended or
/// compromised since.
final class LedgerGate: Sendable {
    enum Position: Sendable, Equatable {
        /// The HSM token has not been seen yet.
        case waiting
        /// Ledger and HSM token agree.
        case open
        /// They do not agree. Nothing is released until somebody accepts the ledger knowingly.
        case held(LedgerDisagreement)
    }

    private let ledger: any Ledger
    private let hsmToken: any AuditHSMToken
    /// As the configuration names it.
    private let hsmTokenName: String
    private let checkpoints: Checkpoints
    private let clock: WallClock
    private let logger: Logger
    private let state = Mutex(Position.waiting)
    private let lastFailure = Mutex<String?>(nil)
    private let firstVerdict: AsyncStream<Position>.Continuation
    /// The first position after `waiting`, once.
    let verdicts: AsyncStream<Position>

    init(
        ledger: any Ledger, hsmToken: any AuditHSMToken, hsmTokenName: String, checkpoints: Checkpoints,
        clock: WallClock,
        logger: Logger
    ) {
        self.ledger = ledger
        self.hsmTokenName = hsmTokenName
        self.hsmToken = hsmToken
        self.checkpoints = checkpoints
        self.clock = clock
        self.logger = logger
        (verdicts, firstVerdict) = AsyncStream.makeStream(of: Position.self, bufferingPolicy: .bufferingOldest(1))
    }

    var position: Position { state.withLock { $0 } }

    /// - Throws: ledger_unavailable while nothing may be released.
    func admit() throws(Refusal) {
        switch position {
        case .open: return
        case .waiting:
            throw Refusal(
                .ledgerUnavailable,
                "The ledger has not been compared with the HSM token yet, so nothing is released; try again shortly.")
        case .held:
            throw Refusal(
                .ledgerUnavailable,
                "The ledger and the HSM token disagree, so nothing is released; paytokenctl status says what to do.")
        }
    }

    /// Compares whenever the HSM token has been opened, until there is a verdict. What fails beside a token that serves is
    /// tried again after a tenth of a second: nothing tells when the ledger can be read again.
    ///
    /// - Parameters:
    ///   - openings: an element each time the HSM token has been opened.
    ///   - isServing: whether it can be asked now; where not, the next opening is waited for.
    func start(openings: AsyncStream<Void>, isServing: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            for await _ in openings {
                repeat {
                    await compare()
                    guard position == .waiting else { return }
                    try? await Task.sleep(for: .milliseconds(100))
                } while !Task.isCancelled && isServing()
            }
        }
    }

    /// Compares once. A ledger that was accepted meanwhile stays in service.
    func compare() async {
        guard position == .waiting else { return }
        do throws(Refusal) {
            let position: Position =
                if let disagreement = try await disagreement() { .held(disagreement) } else { .open }
            state.withLock { $0 = position }
            if case .held(let disagreement) = position { logger.critical("\(disagreement.description)") }
            firstVerdict.yield(position)
            firstVerdict.finish()
        } catch {
            // It is tried ten times a second, and logged when the reason changes.
            let isNew = lastFailure.withLock { last in
                defer { last = error.message }
                return last != error.message
            }
            guard isNew else { return }
            logger.error(
                "ledger and HSM token could not be compared; it is tried again",
                metadata: ["reason": "\(error.message)"])
        }
    }

    /// Takes the ledger into service as it is, and has the HSM token remember its end from now on.
    ///
    /// - Parameter decision: the second person's, written in one transaction with the acceptance.
    /// - Returns: where the ledger ends, and the sequence that the HSM token remembered.
    func acceptRestore(
        reason: AuditReason, by caller: AuditCaller?, approval: ApprovalIdentifier? = nil,
        decision: AdministrativeChange? = nil
    ) async throws(Refusal) -> (ledgerSequence: Int, hsmTokenSequence: Int?) {
        guard case .held(let disagreement) = position else {
            throw Refusal(.invalidState, "Ledger and HSM token agree; there is nothing to accept.")
        }
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        let signing: AuditSigningKey
        switch disagreement {
        case .anotherHSMToken:
            throw Refusal(
                .invalidState,
                "The HSM token does not hold the key that sealed this ledger's record; accepting cannot help.",
                details: "put that HSM token back, or take the ledger that belongs to this one")
        case .lost(_, let seen):
            guard let key = evidence.keyOfLostLedger else {
                throw Refusal(
                    .invalidState, "The HSM token holds no audit key, or several of which none signed its head.")
            }
            guard key.checkpointKey.keyId == seen else {
                throw Refusal(
                    .invalidState, "The HSM token shows another audit key than the one that was to be taken over.",
                    details: "start paytokend anew, and look who has the HSM token's PIN")
            }
            signing = key
        case .rolledBack, .forked:
            guard let key = evidence.signingKey else { throw .defect }
            signing = key
        }
        guard try await signing.isProven(by: hsmToken) else {
            throw Refusal(.invalidState, "The HSM's audit key does not sign as its public key says; it is not used.")
        }
        let sequence = evidence.head.sequence
        var change = decision ?? AdministrativeChange(at: clock.now(), records: [])
        change.records.append(
            AuditRecord(
                time: AuditTime(clock.now()),
                event: .ledgerAcceptRestore(
                    LedgerRestore(
                        ledgerSequence: sequence, hsmTokenSequence: disagreement.hsmTokenSequence, reason: reason,
                        approval: approval)),
                caller: caller))
        try await refusing(ledger: await ledger.apply(change))
        if evidence.signingKey == nil {
            try await refusing(ledger: await ledger.planAuditKey(identifier: signing.identifier))
            try await refusing(ledger: await confirm(signing))
        }
        checkpoints.use(signing, newest: nil, head: try await refusing(ledger: await ledger.head()))
        // The acceptance is recorded. The HSM token remembers this chain from the next seal on; a daemon that starts before
        // that seal asks for the acceptance again.
        state.withLock { $0 = .open }
        do throws(Refusal) {
            try await checkpoints.seal()
        } catch {
            logger.error("the accepted ledger is not sealed yet", metadata: ["reason": "\(error.message)"])
        }
        logger.warning(
            "a restored ledger was taken into service",
            metadata: ["ledger.sequence": "\(sequence)", "token.sequence": "\(disagreement.hsmTokenSequence ?? 0)"])
        return (sequence, disagreement.hsmTokenSequence)
    }

    // MARK: Comparing

    /// - Returns: nil when they agree; the audit key is in service then.
    private func disagreement() async throws(Refusal) -> LedgerDisagreement? {
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        guard let signing = evidence.signingKey else { return try await begin(evidence) }
        guard try await signing.isProven(by: hsmToken) else { return .anotherHSMToken(keyId: evidence.storedKeyId) }
        guard let remembered = evidence.remembered else {
            // Either the process ended before the first head was stored, or somebody with the PIN removed it.
            logger.warning("the HSM token remembers no end of this ledger's record; it is told the present one")
            try await serve(signing, evidence)
            return nil
        }
        switch try await refusing(ledger: await ledger.compare(with: remembered.checkpoint)) {
        case .continues:
            try await serve(signing, evidence)
            return nil
        case .behind(let last):
            return .rolledBack(ledgerSequence: last, remembered: remembered.checkpoint)
        case .forked:
            // What the token remembers is sealed in the ledger first, and a start that is refused seals nothing, though it
            // records itself: where the newest seal is older, the ledger is an older copy on which such starts went on.
            let sealed = try await refusing(ledger: await ledger.latestCheckpoint())?.checkpoint.sequence ?? 0
            return sealed < remembered.checkpoint.sequence
                ? .rolledBack(ledgerSequence: sealed, remembered: remembered.checkpoint)
                : .forked(remembered: remembered.checkpoint)
        case .anotherNode:
            return .forked(remembered: remembered.checkpoint)
        }
    }

    private func serve(_ key: AuditSigningKey, _ evidence: LedgerEvidence) async throws(Refusal) {
        let newest = try await refusing(ledger: await ledger.latestCheckpoint())
        checkpoints.use(key, newest: newest, head: evidence.head)
        try await checkpoints.seal()
    }

    /// A ledger without an audit key in service gets one, unless the HSM token shows that another ledger was here.
    private func begin(_ evidence: LedgerEvidence) async throws(Refusal) -> LedgerDisagreement? {
        guard !evidence.storedKeys.contains(where: { $0.publicKey != nil }) else {
            return .anotherHSMToken(keyId: evidence.storedKeyId)
        }
        let planned = evidence.storedKeys.last?.identifier
        if !evidence.hsmTokenKeys.isEmpty || evidence.hsmTokenRemembersSomething {
            // A start that broke off leaves the one key that this ledger planned. Anything else in the HSM token is another
            // ledger's.
            guard !evidence.hsmTokenRemembersSomething, evidence.hsmTokenKeys.count == 1,
                let own = evidence.hsmTokenKeys.first,
                own.identifier == planned, try await own.isProven(by: hsmToken)
            else {
                return .lost(
                    remembered: evidence.rememberedByHSMToken?.checkpoint,
                    keyId: evidence.keyOfLostLedger?.checkpointKey.keyId)
            }
            try await putIntoService(own)
            return nil
        }
        try await putIntoService(hsmToken.makeAuditKey(planned ?? Release.randomAttempt(), plannedIn: ledger))
        return nil
    }

    /// The ledger's first audit key goes into service.
    private func putIntoService(_ key: AuditSigningKey) async throws(Refusal) {
        try await refusing(ledger: await confirm(key))
        logger.notice("the audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        checkpoints.use(key, newest: nil, head: try await refusing(ledger: await ledger.head()))
        try await checkpoints.seal()
    }

    private func confirm(_ key: AuditSigningKey) async throws(LedgerFailure) {
        try await ledger.confirmAuditKey(
            identifier: key.identifier, publicKey: key.publicPoint,
            recording: AuditRecord(
                time: AuditTime(clock.now()),
                event: .auditKeyChange(from: nil, to: key.checkpointKey.keyId, reason: nil, approval: nil),
                hsmToken: AuditText(hsmTokenName)))
    }
}
