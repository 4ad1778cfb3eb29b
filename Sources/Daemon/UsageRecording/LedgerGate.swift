import AuditChain
package import FairShares
import Foundation
package import Ledger
import Locks
package import Logging
package import Refusals
import WorkerProtocol
package import WorkerSupervision

/// The write gate of the ledger. The daemon releases and changes nothing before the ledger has been compared with what
/// the HSM token remembers. A ledger that was lost or rolled back lacks the latest claims. With such a ledger, keys
/// that were suspended or compromised later could decrypt again.
package final class LedgerGate: Sendable {
    /// The result of the comparison. The gate admits releases and changes only while it is `open`.
    package enum Position: Sendable, Equatable {
        /// The ledger has not been compared with the HSM token yet.
        case waiting
        /// Ledger and HSM token agree.
        case open
        /// Ledger and HSM token disagree. The daemon releases nothing until an operator accepts the ledger.
        case held(LedgerDisagreement)
    }

    package let ledger: any Ledger
    let hsmToken: any AuditHSMToken
    package let checkpoints: Checkpoints
    let clock: WallClock
    let logger: Logger
    private let widestWindow: @Sendable () -> Duration?
    /// The widest window that was last stored in the ledger. The outer optional is nil if no window was stored. The
    /// inner optional is nil if a window is off.
    private let publishedWindow = Mutex<Duration??>(nil)
    private let state = Mutex(Position.waiting)
    private let lastFailure = Mutex<String?>(nil)
    /// Allows one comparison, or one replacement of a lost audit key, at a time.
    package let comparisons = AsyncLock()
    /// An acceptance that failed, although it may have been committed.
    let uncertainAcceptance = Mutex<UncertainAcceptance?>(nil)
    private let firstVerdict: AsyncStream<Position>.Continuation
    /// Yields one element: the position after the first comparison that succeeds.
    package let verdicts: AsyncStream<Position>

    /// - Parameter widestWindow: a function that returns the widest signing-time window in force; nil while a window
    ///   is off.
    package init(
        ledger: any Ledger, hsmToken: any AuditHSMToken, checkpoints: Checkpoints, clock: WallClock, logger: Logger,
        widestWindow: @escaping @Sendable () -> Duration?
    ) {
        self.ledger = ledger
        self.widestWindow = widestWindow
        self.hsmToken = hsmToken
        self.checkpoints = checkpoints
        self.clock = clock
        self.logger = logger
        (verdicts, firstVerdict) = AsyncStream.makeStream(of: Position.self, bufferingPolicy: .bufferingOldest(1))
    }

    package var position: Position { state.withLock { $0 } }

    /// The sentence that explains the position `waiting`, with the last failure of a comparison.
    package var waitingReason: String {
        let failure = lastFailure.withLock { $0 }
        return "The ledger has yet to be compared with the HSM token \(hsmToken.name), which seals its record."
            + (failure.map { " The last comparison failed: \($0)" } ?? "")
    }

    func setPosition(_ position: Position) { state.withLock { $0 = position } }

    /// Sets the first position after `waiting`, and yields it in ``verdicts``.
    func takeFirst(_ position: Position) {
        setPosition(position)
        firstVerdict.yield(position)
        firstVerdict.finish()
    }

    /// Throws while nothing may be released or changed.
    /// - Throws: ledger_unavailable.
    package func admit() throws(Refusal) {
        switch position {
        case .open: return
        case .waiting:
            throw Refusal(
                .ledgerUnavailable,
                "The ledger has not been compared yet with the HSM token \(hsmToken.name), which seals its record, so "
                    + "nothing is released; try again shortly.")
        case .held:
            throw Refusal(
                .ledgerUnavailable,
                "The ledger and the HSM token disagree, so nothing is released; GET /v1/status says what to do.")
        }
    }

    /// Starts a task that compares the ledger with the HSM token whenever a worker has opened the HSM token, until a
    /// comparison succeeds. If a comparison fails, the task retries after a pause (``ComparisonRetry``), since no event
    /// reports that the ledger can be read again, or that the HSM token's fault has ended. Once the position is known, the
    /// task also watches the other nodes' findings.
    ///
    /// - Parameters:
    ///   - openings: a stream that yields an element each time a worker has opened the HSM token.
    ///   - isServing: a function that returns true while the HSM token can be read. If it returns false, the task waits for
    ///     the next opening.
    package func start(openings: AsyncStream<Void>, isServing: @escaping @Sendable () -> Bool) -> Task<Void, Never> {
        Task {
            async let comparing: Void = compare(at: openings, isServing: isServing)
            // The position may also become known without the HSM token (``openAfterLoss()``).
            await watch()
            await comparing
        }
    }

    private func compare(at openings: AsyncStream<Void>, isServing: @Sendable () -> Bool) async {
        var retry = ComparisonRetry()
        for await _ in openings {
            repeat {
                let fault = await compare()
                guard position == .waiting else { return }
                try? await Task.sleep(for: retry.pause(after: fault))
            } while !Task.isCancelled && isServing()
        }
    }

    /// Compares the ledger with the HSM token once. Does nothing unless the position is `waiting`.
    /// - Returns: the code of the failure; nil if the ledger is now `open` or `held`.
    @discardableResult
    func compare() async -> RefusalCode? {
        await comparisons.acquire()
        defer { comparisons.release() }
        guard position == .waiting else { return nil }
        do throws(Refusal) {
            try await publishSigningTimeWindow()
            let position = try await ledger.isShared ? sharedPosition() : ownPosition()
            takeFirst(position)
            if case .held(let disagreement) = position { logger.critical("\(disagreement.description)") }
            return nil
        } catch {
            // Comparisons are repeated until one succeeds, so a failure is logged only when the reason changes.
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
        // A ledger that was restored from a backup is marked as such. The comparison alone would miss the restore if
        // the HSM token was restored from a backup of the same day.
        let hold = try await refusing(ledger: await ledger.releaseStatus()).holds.first
        if let disagreement = try await disagreement(serves: hold == nil) { return .held(disagreement) }
        return hold.map { .held(.changedUnderneath($0.finding)) } ?? .open
    }

    /// Stores the widest signing-time window in the ledger if it has changed. The fence of an accepted restore depends on
    /// it.
    func publishSigningTimeWindow() async throws(Refusal) {
        let window = widestWindow()
        guard publishedWindow.withLock({ $0 != .some(window) }) else { return }
        try await refusing(ledger: await ledger.update(widestWindow: window))
        publishedWindow.withLock { $0 = .some(window) }
    }

    /// Compares the ledger with the HSM token.
    ///
    /// - Parameter serves: true to put the audit key into service if they agree.
    /// - Returns: the disagreement; nil if they agree.
    func disagreement(serves: Bool = true) async throws(Refusal) -> LedgerDisagreement? {
        let evidence = try await LedgerEvidence(ledger: ledger, hsmToken: hsmToken)
        if evidence.hsmTokenRemembersSomething { checkpoints.noteStoredHead() }
        guard let signing = evidence.signingKey else { return try await begin(evidence, serves: serves) }
        guard try await signing.isProven(by: hsmToken) else { return anotherHSMToken(evidence) }
        guard let remembered = evidence.remembered else {
            // There are three possible causes. The daemon ended before the first head was stored, the HSM token stores
            // no heads, or someone with the PIN removed the head.
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
            // The HSM token remembers only records that were sealed in the ledger before. A refused start of the daemon
            // adds records but no audit checkpoint. If the ledger's newest audit checkpoint is older than the
            // remembered one, the ledger is therefore an older copy to which refused starts added records.
            let sealed = try await refusing(ledger: await ledger.latestCheckpoint())?.checkpoint.sequence ?? 0
            return sealed < remembered.checkpoint.sequence
                ? .rolledBack(ledgerSequence: sealed, remembered: remembered.checkpoint)
                : .forked(remembered: remembered.checkpoint)
        case .anotherNode:
            return .forked(remembered: remembered.checkpoint)
        }
    }

    private func anotherHSMToken(_ evidence: LedgerEvidence) -> LedgerDisagreement {
        let sealing = evidence.sealingHSMToken
        return .anotherHSMToken(keyId: evidence.storedKeyId, sealing: sealing == hsmToken.name ? nil : sealing)
    }

    private func serve(_ key: AuditSigningKey, _ evidence: LedgerEvidence) async throws(Refusal) {
        if evidence.sealingHSMToken != hsmToken.name {
            try await refusing(ledger: await ledger.update(auditKey: key.identifier, foundIn: hsmToken.name))
        }
        let newest = try await refusing(ledger: await ledger.latestCheckpoint())
        checkpoints.use(key, newest: newest, head: evidence.head)
        try await checkpoints.sealWithLongWait()
    }

    /// Puts a first audit key into service for a ledger that has none. Returns a disagreement instead if the HSM token shows
    /// that there was another ledger.
    private func begin(_ evidence: LedgerEvidence, serves: Bool) async throws(Refusal) -> LedgerDisagreement? {
        guard !evidence.storedKeys.contains(where: { $0.publicKey != nil }) else {
            return anotherHSMToken(evidence)
        }
        let planned = evidence.storedKeys.last?.identifier
        if !evidence.hsmTokenKeys.isEmpty || evidence.hsmTokenRemembersSomething {
            // An interrupted start leaves only the key that this ledger planned. Any other key or head in the HSM token
            // belongs to another ledger. If the HSM token cannot sign with the planned key, `createAuditKey` replaces
            // that key.
            guard !evidence.hsmTokenRemembersSomething, let planned,
                evidence.hsmTokenKeys.map(\.identifier) == [planned],
                let own = AuditSigningKey(
                    try await refusing(record: await hsmToken.createAuditKey(identifier: planned))),
                try await own.isProven(by: hsmToken)
            else {
                return .lost(
                    remembered: evidence.rememberedByHSMToken?.checkpoint,
                    keyId: evidence.keyOfLostLedger?.checkpointKey.keyId)
            }
            if serves { try await putIntoService(own) }
            return nil
        }
        guard serves else { return nil }
        let identifier = planned ?? AuditKeyIdentifier.newIdentifier(for: ledger.node)
        try await putIntoService(hsmToken.makeAuditKey(identifier, plannedIn: ledger))
        return nil
    }

    /// Puts the ledger's first audit key into service.
    private func putIntoService(_ key: AuditSigningKey) async throws(Refusal) {
        try await refusing(ledger: await confirm(key))
        logger.notice("the audit key is in service", metadata: ["key.id": "\(key.checkpointKey.keyId.hex)"])
        checkpoints.use(key, newest: nil, head: try await refusing(ledger: await ledger.head()))
        try await checkpoints.sealWithLongWait()
    }

    func confirm(_ key: AuditSigningKey) async throws(LedgerFailure) {
        try await ledger.confirmAuditKey(
            identifier: key.identifier, publicKey: key.publicKey,
            recording: AuditRecord(
                time: AuditTime(clock.now()),
                event: .auditKeyChange(from: nil, to: key.checkpointKey.keyId, reason: nil, approval: nil),
                hsmToken: AuditText(hsmToken.name)))
    }
}

/// Determines the pauses after failed comparisons. A comparison makes calls to the HSM token, and some HSM tokens keep objects
/// of such calls (a TPM's library did, until every login failed). The pauses therefore double up to a minute, even if the HSM
/// token is opened again in between. If the ledger failed, the pause is one second, since the HSM token was hardly used.
struct ComparisonRetry {
    static let longestPause = Duration.seconds(60)
    private static let ledgerPause = Duration.seconds(1)

    private var next = Duration.milliseconds(100)

    /// Returns the pause before the next comparison.
    /// - Parameter fault: the code with which the comparison failed. After a call that hung the pause is ``longestPause``,
    ///   since each further attempt costs a worker.
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
