package import AuditChain
import Foundation
import HostSystem
package import Ledger
import Locks
package import Logging
package import Refusals
import WorkerProtocol
package import WorkerSupervision

/// Seals the record with audit checkpoints. For each one, the HSM token signs the end of the chain, the ledger stores the
/// signature, and the HSM token remembers this newest audit checkpoint.
///
/// An audit checkpoint is made after 1,000 records or 60 seconds, whichever comes first, at shutdown, and at the end of
/// every export.
package final class Checkpoints: CheckpointSealing {
    private struct State {
        /// The key that signs; nil until ledger and HSM token have been compared and agree.
        var key: AuditSigningKey?
        /// The last audit checkpoint in the ledger. ``isRemembered`` is true once the HSM token remembers it too.
        var newest: SignedCheckpoint?
        var isRemembered = false
        var memory = HSMTokenMemory()
        /// The seal that is running, or the last one. Seals run one at a time. Otherwise the HSM token would remember the
        /// audit checkpoint that arrived last, which need not be the newest.
        var present: Task<Result<SignedCheckpoint?, Refusal>, Never>?
        /// The seal that starts when ``present`` has ended. All calls that arrive until then share this seal.
        var following: Task<Result<SignedCheckpoint?, Refusal>, Never>?
    }

    private let ledger: any Ledger
    private let hsmToken: any AuditHSMToken
    private let clock: WallClock
    private let logger: Logger
    private let unsealed: UnsealedRecords
    private let patience: Duration
    private let check: RecordCheck?
    private let state = Mutex(State())

    /// - Parameters:
    ///   - unsealed: the ends of the record and of its sealed part, as the ledger's writer reports them.
    ///   - patience: the maximum wait for a seal. An HSM call that hangs takes `call_timeout`, and is then repeated by the
    ///     next worker.
    ///   - check: the check of the record that runs before an audit checkpoint that is due.
    package init(
        ledger: any Ledger, hsmToken: any AuditHSMToken,
        unsealed: UnsealedRecords = UnsealedRecords(), clock: WallClock,
        patience: Duration = .seconds(30), check: RecordCheck? = nil, logger: Logger
    ) {
        self.ledger = ledger
        self.hsmToken = hsmToken
        self.clock = clock
        self.logger = logger
        self.unsealed = unsealed
        self.patience = patience
        self.check = check
    }

    /// Makes audit checkpoints with this key from now on. `newest` is the last audit checkpoint in the ledger, and
    /// `head` the end of the record.
    package func use(_ key: AuditSigningKey, newest: SignedCheckpoint?, head: ChainHead) {
        state.withLock {
            $0.key = key
            $0.newest = newest
            $0.isRemembered = false
        }
        unsealed.restart(end: head.sequence, sealed: newest?.checkpoint.sequence ?? 0)
        check?.reset()
    }

    /// Notes that the HSM token already has a head, so it is able to store heads.
    func noteStoredHead() { state.withLock { $0.memory.hasRemembered = true } }

    /// Resets what is known about the former HSM token's ability to store heads. Called after another HSM token was
    /// chosen to seal the record.
    package func forgetFormerHSMToken() { state.withLock { $0.memory = HSMTokenMemory() } }

    /// Stops sealing. Otherwise a new audit checkpoint would replace the one that the HSM token remembers.
    func stopSealing() { state.withLock { $0.key = nil } }

    /// Starts a task that seals the record whenever an audit checkpoint is due.
    package func start() -> Task<Void, Never> {
        let ticking = Task.repeating(every: .seconds(1)) { [unsealed] in unsealed.wakeUp() }
        return Task {
            await withTaskCancellationHandler {
                var retry = SealRetry()
                for await _ in unsealed.wakeUps where retry.isDue(at: .now) {
                    retry.noteResult(await sealIfDue(), at: .now)
                }
            } onCancel: {
                ticking.cancel()
                unsealed.finish()
            }
        }
    }

    /// Seals the record if an audit checkpoint is due.
    /// - Returns: the code with which the HSM token or the ledger failed; nil if neither failed.
    private func sealIfDue() async -> RefusalCode? {
        guard unsealed.isDue(), state.withLock({ $0.key != nil }) else { return nil }
        // The record is sealed even if the check finds a break in the chain. Without an audit checkpoint, nothing could
        // prove the records after the break (Record.md).
        await check?.run()
        do throws(Refusal) {
            _ = try await seal()
            return nil
        } catch {
            logger.error("the record was not sealed; retrying", metadata: ["reason": "\(error.reason)"])
            return error.code
        }
    }

    /// Makes and stores an audit checkpoint that seals everything recorded so far; returns nil if nothing is recorded.
    ///
    /// Calls that arrive while an audit checkpoint is being made share the next one. Therefore at most two audit
    /// checkpoints wait for an HSM that hangs.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    @discardableResult
    package func seal() async throws(Refusal) -> SignedCheckpoint? { try await seal(within: patience) }

    /// Seals like ``seal()``, but with a time limit of at least a minute. If the call that stores the head in the HSM
    /// token hangs, it fails only after `call_timeout` and the start of another worker. With a shorter limit, the seal
    /// would end before that failure is known.
    func sealWithLongWait() async throws(Refusal) { _ = try await seal(within: max(patience, .seconds(60))) }

    private func seal(within patience: Duration) async throws(Refusal) -> SignedCheckpoint? {
        let seal = state.withLock { state in
            if let following = state.following { return following }
            let before = state.present
            let seal = Task { () -> Result<SignedCheckpoint?, Refusal> in
                _ = await before?.value
                // This seal may not cover what is recorded from now on, so later calls need the next seal.
                self.state.withLock { state in
                    state.present = state.following
                    state.following = nil
                }
                do throws(Refusal) {
                    return .success(try await makeCheckpoint())
                } catch {
                    return .failure(error)
                }
            }
            state.following = seal
            return seal
        }
        guard let sealed = await seal.value(within: patience) else {
            throw Refusal(
                .hsmUnavailable,
                "The record could not be sealed in time, because the HSM or the ledger does not respond.")
        }
        return try sealed.get()
    }

    private func makeCheckpoint() async throws(Refusal) -> SignedCheckpoint? {
        let cut = ContinuousClock.now
        let head = try await refusing(ledger: await ledger.head())
        let (key, newest, isRemembered) = state.withLock { ($0.key, $0.newest, $0.isRemembered) }
        guard let key else {
            throw Refusal(
                .hsmUnavailable,
                "The ledger and the HSM have not been compared, or disagree; GET /v1/status says which.")
        }
        if let newest, newest.checkpoint.sequence == head.sequence {
            unsealed.sealed(upTo: head.sequence, cut: cut)
            if !isRemembered { try await remember(newest) }
            return newest
        }
        let checkpoint = head.checkpoint(
            at: AuditTime(clock.now()), keyId: key.checkpointKey.keyId, algorithm: key.algorithm)
        guard let checkpoint else { return nil }
        let signed = try await checkpoint.signed { message throws(Refusal) in
            try await key.sign(message, in: hsmToken)
        }
        guard key.checkpointKey.verifies(signed) else {
            logger.critical("the HSM token signed an audit checkpoint with another key than its audit key")
            throw .defect
        }
        try await refusing(ledger: await ledger.insert(signed))
        state.withLock {
            $0.newest = signed
            $0.isRemembered = false
        }
        unsealed.sealed(upTo: head.sequence, cut: cut)
        try await remember(signed)
        return signed
    }

    private func remember(_ checkpoint: SignedCheckpoint) async throws(Refusal) {
        if !state.withLock({ $0.memory.hasHung }) {
            do {
                try await hsmToken.rememberHead(checkpoint.line, node: ledger.node)
                state.withLock { $0.memory.stored() }
            } catch {
                let (isNew, isFinal, loss) = state.withLock { state in
                    let before = state.memory.fault
                    let isFinal = state.memory.failed(error)
                    return (state.memory.fault != before, isFinal, isFinal ? state.memory.unrecordedLoss() : nil)
                }
                guard isFinal else { throw error.recordRefusal }
                if let loss {
                    ledger.note(
                        AuditRecord(
                            time: AuditTime(clock.now()), event: .headMemoryLost(loss),
                            hsmToken: AuditText(hsmToken.name)))
                }
                if isNew {
                    logger.warning(
                        "the HSM token does not remember the end of the record",
                        metadata: ["reason": "\(error.message)"])
                }
            }
        }
        state.withLock { state in
            if state.newest == checkpoint { state.isRemembered = true }
        }
    }

    /// A sentence for `status` if the HSM token does not remember the end of the record; else empty.
    package var warnings: [String] { state.withLock { $0.memory.warnings } }

    /// Returns the public halves of all keys that have signed this ledger's audit checkpoints.
    package func keys() async throws(Refusal) -> [CheckpointKey] {
        try await refusing(ledger: await ledger.auditKeys()).compactMap { stored in
            stored.publicKey.flatMap(CheckpointKey.init(stored:))
        }
    }

    /// Returns the newest audit checkpoint of this node's chain that the HSM token remembers; nil if it remembers none.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    package func remembered() async throws(Refusal) -> SignedCheckpoint? {
        let known = CheckpointKeys(try await keys())
        let node = try await refusing(ledger: await ledger.head()).node
        let lines = try await refusing(record: await hsmToken.rememberedHeads())
        return RememberedHeads(lines).newest(of: node, signedBy: known)
    }
}

/// The HSM token's ability to remember the newest audit checkpoint, as the daemon has found it since its start.
struct HSMTokenMemory {
    /// True if the HSM token has ever stored a head, in this process or before.
    var hasRemembered = false
    /// The reason why the HSM token did not store the newest head; nil if it did.
    private(set) var fault: String?
    /// True if the call to store a head hung, and the HSM token has never stored a head. The call is not repeated until
    /// the daemon's next start, since each call that hangs costs a worker.
    private(set) var hasHung = false
    private var isLossRecorded = false

    mutating func stored() {
        hasRemembered = true
        fault = nil
    }

    /// Notes a failure to store a head.
    ///
    /// Some HSM tokens (NSS) store no data objects, and some libraries (the YubiHSM's) hang in the call. The audit key in
    /// them still shows that a ledger was lost. A rollback is found only by comparison with a head that an auditor keeps.
    ///
    /// If an HSM token that has stored a head before hangs, it is out of order, and the call is repeated. Otherwise a single
    /// time-out would end the detection of a ledger that was rolled back.
    ///
    /// - Returns: true if the record counts as sealed without a stored head; false if the call must be repeated.
    mutating func failed(_ failure: WorkerFailure) -> Bool {
        guard [.auditRefused, .deadlineExceeded].contains(failure.kind) else { return false }
        fault = failure.message
        guard failure.kind == .deadlineExceeded else { return true }
        hasHung = !hasRemembered
        return hasHung
    }

    /// Returns the event to record after ``failed(_:)`` has returned true. Returns nil if an earlier call has returned
    /// it, so that it is recorded only once.
    mutating func unrecordedLoss() -> HeadMemoryLoss? {
        guard let fault, !isLossRecorded else { return nil }
        isLossRecorded = true
        return HeadMemoryLoss(cause: hasHung ? .hung : .refused, message: AuditText(fault))
    }

    var warnings: [String] {
        guard let fault else { return [] }
        if hasHung {
            return [
                "The HSM token does not remember the end of the record: \(fault) This is not tried again before the "
                    + "daemon's next start. " + Self.loss
            ]
        }
        return [
            hasRemembered
                ? "The HSM token remembers an older end of the record, and not the newest: \(fault)"
                : "The HSM token does not remember the end of the record: \(fault) " + Self.loss
        ]
    }

    private static let loss =
        "A lost ledger is still noticed at a start, and an older copy of it is not: keep heads on another host "
        + "(GET /v1/audit/head)."
}

/// The interface for sealing the record with the HSM token's audit key.
package protocol CheckpointSealing: Sendable {
    /// Makes and stores an audit checkpoint that seals everything recorded so far; returns nil if nothing is recorded.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    @discardableResult
    func seal() async throws(Refusal) -> SignedCheckpoint?

    /// Returns the public halves of all keys that have signed this ledger's audit checkpoints, the oldest first.
    func keys() async throws(Refusal) -> [CheckpointKey]

    /// Returns the newest audit checkpoint of this node's chain that the HSM token remembers; nil if it remembers none.
    ///
    /// - Throws: hsm_unavailable or ledger_unavailable.
    func remembered() async throws(Refusal) -> SignedCheckpoint?
}

/// Determines when a failed seal is retried: after one second, then two, and up to ten. Without these pauses, each record
/// would cause an attempt and a log line while the HSM token is unavailable. After a call that hung, the pause is a minute,
/// since each further attempt costs a worker.
struct SealRetry {
    static let longestPause = Duration.seconds(10)
    private static let pauseAfterHang = Duration.seconds(60)

    private var pause = Duration.zero
    private var notBefore: ContinuousClock.Instant?

    func isDue(at now: ContinuousClock.Instant) -> Bool { notBefore.map { now >= $0 } ?? true }

    /// Notes the result of an attempt to seal the record.
    /// - Parameter fault: the code with which the seal failed; nil if it succeeded.
    mutating func noteResult(_ fault: RefusalCode?, at now: ContinuousClock.Instant) {
        guard let fault else {
            (pause, notBefore) = (.zero, nil)
            return
        }
        pause = min(max(pause * 2, .seconds(1)), Self.longestPause)
        notBefore = now + (fault == .deadlineExceeded ? Self.pauseAfterHang : pause)
    }
}
