import AuditChain
import Foundation
import Ledger
import Logging
import Refusals
import Synchronization
import WorkerProtocol
import WorkerSupervision

/// The ledger's write gate: nothing is released or changed before the ledger has been compared with what the HSM token
/// remembers. A ledger that was lost or rolled back lacks later claims, and keys that were suspended or compromised
/// since decrypt again.
final class LedgerGate: Sendable {
    enum Position: Sendable, Equatable {
        /// The HSM token has not been read yet.
        case waiting
        /// Ledger and HSM token agree.
        case open
        /// Ledger and HSM token disagree. Nothing is released until an operator accepts the ledger.
        case held(LedgerDisagreement)
    }

    let ledger: any Ledger
    let hsmToken: any AuditHSMToken
    /// The HSM token's configured name.
    private let hsmTokenName: String
    let checkpoints: Checkpoints
    let clock: WallClock
    let logger: Logger
    private let widestWindow: @Sendable () -> Duration?
    /// The window that was last published to the ledger; nil if none was.
    private let publishedWindow = Mutex<Duration??>(nil)
    private let state = Mutex(Position.waiting)
    private let lastFailure = Mutex<String?>(nil)
    private let firstVerdict: AsyncStream<Position>.Continuation
    /// Yields the first position after `waiting`, once.
    let verdicts: AsyncStream<Position>

    /// - Parameter widestWindow: a function that returns the widest signing-time window in force, or nil while one is
    ///   off.
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

    /// The reason why nothing is released while the position is `waiting`.
    var waitingReason: String {
        let failure = lastFailure.withLock { $0 }
        return "The ledger has yet to be compared with the HSM token that remembers its end."
            + (failure.map { " The last comparison failed: \($0)" } ?? "")
    }

    func take(_ position: Position) { state.withLock { $0 = position } }

    /// Admits a release or a change.
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

    /// Compares the ledger with the HSM token each time that the HSM token has been opened, until there is a verdict.
    /// If a comparison fails, it is retried after a pause (``ComparisonRetry``), since no event reports that the ledger
    /// can be read again or that the HSM token's fault has ended.
    ///
    /// - Parameters:
    ///   - openings: a stream that yields an element each time the HSM token has been opened.
    ///   - isServing: a function that returns true if the HSM token can be read now; if not, the next opening is
    ///     awaited.
    func start(openings: AsyncStream<Void>, isServing: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            var retry = ComparisonRetry()
            for await _ in openings {
                repeat {
                    let fault = await compare()
                    guard position == .waiting else { return await watch() }
                    try? await Task.sleep(for: retry.pause(after: fault))
                } while !Task.isCancelled && isServing()
            }
        }
    }

    /// Compares once. A ledger that was accepted in the meantime stays in service.
    /// - Returns: the code of the failure; nil if there is a verdict.
    @discardableResult
    func compare() async -> RefusalCode? {
        guard position == .waiting else { return nil }
        do throws(Refusal) {
            try await publishSigningTimeWindow()
            let position = try await ledger.isShared ? sharedPosition() : ownPosition()
            take(position)
            if case .held(let disagreement) = position { logger.critical("\(disagreement.description)") }
            firstVerdict.yield(position)
            firstVerdict.finish()
            return nil
        } catch {
            // The failure of a retry is logged only when the reason changes.
            let reason = error.reason
            let isNew = lastFailure.withLock { last in
                defer { last = reason }
                return last != reason
            }
            if isNew {
                logger.error(
                    "the ledger and the HSM token could not be compared; retrying",
                    metadata: ["reason": "\(reason)"])
            }
            return error.code
        }
    }

    // MARK: Comparing

    private func ownPosition() async throws(Refusal) -> Position {
        // A restored file is marked as such. A comparison cannot always detect it, since the HSM token may have been
        // restored from the same day.
        let hold = try await refusing(ledger: await ledger.releaseStatus()).holds.first
        if let disagreement = try await disagreement(serves: hold == nil) { return .held(disagreement) }
        return hold.map { .held(.changedUnderneath($0.finding)) } ?? .open
    }

    /// Stores the widest signing-time window in the ledger when it has changed. The fence after a restore depends on
    /// it.
    func publishSigningTimeWindow() async throws(Refusal) {
        let window = widestWindow()
        guard publishedWindow.withLock({ $0 != .some(window) }) else { return }
        try await refusing(ledger: await ledger.note(widestWindow: window))
        publishedWindow.withLock { $0 = .some(window) }
    }

    /// Compares the ledger with the HSM token.
    ///
    /// - Parameter serves: true to put the audit key into service when they agree.
    /// - Returns: nil when they agree.
    func disagreement(serves: Bool = true) async throws(Refusal) -> LedgerDisagreement? {
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        if evidence.hsmTokenRemembersSomething { checkpoints.foundHead() }
        guard let signing = evidence.signingKey else { return try await begin(evidence, serves: serves) }
        guard try await signing.isProven(by: hsmToken) else { return .anotherHSMToken(keyId: evidence.storedKeyId) }
        guard let remembered = evidence.remembered else {
            // Either the process ended before the first head was stored, or a user with the PIN removed it.
            logger.warning("the HSM token remembers no end of this ledger's record; storing the present one in it")
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
            // A remembered record is sealed in the ledger first. A refused start records itself but seals nothing. If
            // the newest seal is older, the ledger is therefore an older copy that such starts continued.
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
        try await checkpoints.sealKnowingMemory()
    }

    /// Gives a ledger without an audit key in service one, unless the HSM token shows that there was another ledger.
    private func begin(_ evidence: LedgerEvidence, serves: Bool) async throws(Refusal) -> LedgerDisagreement? {
        guard !evidence.storedKeys.contains(where: { $0.publicKey != nil }) else {
            return .anotherHSMToken(keyId: evidence.storedKeyId)
        }
        let planned = evidence.storedKeys.last?.identifier
        if !evidence.hsmTokenKeys.isEmpty || evidence.hsmTokenRemembersSomething {
            // An interrupted start leaves the one key that this ledger planned. Anything else in the HSM token belongs
            // to another ledger.
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

    /// Puts the ledger's first audit key into service.
    private func putIntoService(_ key: AuditSigningKey) async throws(Refusal) {
        try await refusing(ledger: await confirm(key))
        logger.notice("the audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        checkpoints.use(key, newest: nil, head: try await refusing(ledger: await ledger.head()))
        try await checkpoints.sealKnowingMemory()
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

/// The pauses between failed comparisons. A comparison makes calls to the HSM token, some of which leave objects in
/// some HSM tokens (a TPM's library did, until every login failed). So the pauses double up to a minute, also when the
/// HSM token is opened again in between. A comparison that the ledger fails costs the HSM token little, and is retried
/// soon.
struct ComparisonRetry {
    static let longestPause = Duration.seconds(60)
    private static let ledgerPause = Duration.seconds(1)

    private var next = Duration.milliseconds(100)

    /// - Parameter fault: the code with which the comparison failed. After a call that hung, the pause is the longest
    ///   one: each attempt costs a worker.
    mutating func pause(after fault: RefusalCode?) -> Duration {
        switch fault {
        case .ledgerUnavailable: return Self.ledgerPause
        case .deadlineExceeded: next = Self.longestPause
        default: break
        }
        defer { next = min(next * 2, Self.longestPause) }
        return next
    }
}
