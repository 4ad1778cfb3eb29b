import AuditChain
import Foundation
import Ledger
import Logging
import Refusals
import Synchronization
import WorkerProtocol
import WorkerSupervision

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

    let ledger: any Ledger
    let hsmToken: any AuditHSMToken
    /// As the configuration names it.
    private let hsmTokenName: String
    let checkpoints: Checkpoints
    let clock: WallClock
    let logger: Logger
    private let widestWindow: @Sendable () -> Duration?
    /// The window that the ledger was told last; nil when it was not.
    private let toldWindow = Mutex<Duration??>(nil)
    private let state = Mutex(Position.waiting)
    private let lastFailure = Mutex<String?>(nil)
    private let firstVerdict: AsyncStream<Position>.Continuation
    /// The first position after `waiting`, once.
    let verdicts: AsyncStream<Position>

    /// - Parameter widestWindow: of the signing-time windows in force; nil while one is off.
    init(
        ledger: any Ledger, hsmToken: any AuditHSMToken, hsmTokenName: String, checkpoints: Checkpoints,
        clock: WallClock, logger: Logger, widestWindow: @escaping @Sendable () -> Duration?
    ) {
        self.ledger = ledger
        self.widestWindow = widestWindow
        self.hsmTokenName = hsmTokenName
        self.hsmToken = hsmToken
        self.checkpoints = checkpoints
        self.clock = clock
        self.logger = logger
        (verdicts, firstVerdict) = AsyncStream.makeStream(of: Position.self, bufferingPolicy: .bufferingOldest(1))
    }

    var position: Position { state.withLock { $0 } }

    /// Why nothing is released while the position is `waiting`.
    var waitingReason: String {
        let failure = lastFailure.withLock { $0 }
        return "The ledger waits for the HSM that remembers its end."
            + (failure.map { " The last comparison with it failed: \($0)" } ?? "")
    }

    func take(_ position: Position) { state.withLock { $0 = position } }

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
                "The ledger and the HSM token disagree, so nothing is released; GET /v1/status says what to do.")
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
                    guard position == .waiting else { return await watch() }
                    try? await Task.sleep(for: .milliseconds(100))
                } while !Task.isCancelled && isServing()
            }
        }
    }

    /// Compares once. A ledger that was accepted meanwhile stays in service.
    func compare() async {
        guard position == .waiting else { return }
        do throws(Refusal) {
            try await publishSigningTimeWindow()
            let position = try await ledger.isShared ? sharedPosition() : ownPosition()
            take(position)
            if case .held(let disagreement) = position { logger.critical("\(disagreement.description)") }
            firstVerdict.yield(position)
            firstVerdict.finish()
        } catch {
            // It is tried ten times a second, and logged when the reason changes.
            let reason = [error.message, error.details].compactMap(\.self).joined(separator: " ")
            let isNew = lastFailure.withLock { last in
                defer { last = reason }
                return last != reason
            }
            guard isNew else { return }
            logger.error(
                "ledger and HSM token could not be compared; it is tried again",
                metadata: ["reason": "\(reason)"])
        }
    }

    // MARK: Comparing

    private func ownPosition() async throws(Refusal) -> Position {
        // A restored file says so itself: the HSM token may have been restored from the same day.
        let hold = try await refusing(ledger: await ledger.releaseStatus()).holds.first
        if let disagreement = try await disagreement(serves: hold == nil) { return .held(disagreement) }
        return hold.map { .held(.foundBeneath($0.finding)) } ?? .open
    }

    /// The ledger is told when it changes: it bounds what a restored ledger may have forgotten.
    func publishSigningTimeWindow() async throws(Refusal) {
        let window = widestWindow()
        guard toldWindow.withLock({ $0 != .some(window) }) else { return }
        try await refusing(ledger: await ledger.note(widestWindow: window))
        toldWindow.withLock { $0 = .some(window) }
    }

    /// - Parameter serves: whether the audit key goes into service when they agree.
    /// - Returns: nil when they agree.
    func disagreement(serves: Bool = true) async throws(Refusal) -> LedgerDisagreement? {
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        guard let signing = evidence.signingKey else { return try await begin(evidence, serves: serves) }
        guard try await signing.isProven(by: hsmToken) else { return .anotherHSMToken(keyId: evidence.storedKeyId) }
        guard let remembered = evidence.remembered else {
            // Either the process ended before the first head was stored, or somebody with the PIN removed it.
            logger.warning("the HSM token remembers no end of this ledger's record; it is told the present one")
            if serves { try await serve(signing, evidence) }
            return nil
        }
        switch try await refusing(ledger: await ledger.compare(with: remembered.checkpoint)) {
        case .continues:
            if serves { try await serve(signing, evidence) }
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
    private func begin(_ evidence: LedgerEvidence, serves: Bool) async throws(Refusal) -> LedgerDisagreement? {
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
            if serves { try await putIntoService(own) }
            return nil
        }
        guard serves else { return nil }
        let identifier = planned ?? AuditKeyIdentifier.random(of: ledger.node)
        try await putIntoService(hsmToken.makeAuditKey(identifier, plannedIn: ledger))
        return nil
    }

    /// The ledger's first audit key goes into service.
    private func putIntoService(_ key: AuditSigningKey) async throws(Refusal) {
        try await refusing(ledger: await confirm(key))
        logger.notice("the audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        checkpoints.use(key, newest: nil, head: try await refusing(ledger: await ledger.head()))
        try await checkpoints.seal()
    }

    func confirm(_ key: AuditSigningKey) async throws(LedgerFailure) {
        try await ledger.confirmAuditKey(
            identifier: key.identifier, publicKey: key.publicPoint,
            recording: AuditRecord(
                time: AuditTime(clock.now()),
                event: .auditKeyChange(from: nil, to: key.checkpointKey.keyId, reason: nil, approval: nil),
                hsmToken: AuditText(hsmTokenName)))
    }
}
