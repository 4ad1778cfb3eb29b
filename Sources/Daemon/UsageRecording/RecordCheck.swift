import AuditChain
import FairShares
package import Ledger
import Locks
package import Logging

/// The daemon's check of its own record. Once a minute, and before each audit checkpoint that is due, it verifies the part
/// of the chain that is new since the last check.
///
/// It detects early if the ledger was changed after a record was written and before it was sealed. It is no proof: it
/// reads each line only once, and so misses a later change to that line. `paytokenctl audit verify` gives a proof.
/// Apart from audit checkpoints that are due, nothing waits for it.
package final class RecordCheck: Sendable {
    /// The result of the last check.
    package struct Finding: Sendable, Equatable {
        let at: ContinuousClock.Instant
        /// The place and kind of the break in the chain; nil if the chain is intact.
        package let fault: String?
    }

    private struct Progress {
        var verifier: ChainVerifier
        /// The sequence of the last record that a check has read.
        var position: Int
        /// The keyIds of the audit keys that the verifier knows.
        let keyIds: [AuditDigest]
    }

    private struct State {
        /// The number of calls of ``reset()``. A check discards its results if this number has changed since its start.
        var generation = 0
        var progress: Progress?
        /// The last audit checkpoint that the check has verified. A check that must be repeated starts at this audit
        /// checkpoint.
        var anchor: SignedCheckpoint?
        /// The highest sequence that a check has read. If the record ends before this sequence, that is a fault.
        var reached = 0
        var finding: Finding?
    }

    /// The minimum number of newest records that the first check reads, if there are so many. If the first check
    /// started at the end, a restart would hide a break that was found before.
    static let recordsBeforeEnd = 10_000
    /// The maximum number of records that one check reads.
    static let maximumRecords = 100_000
    private static let page = 500
    private static let pause = Duration.seconds(60)

    private let ledger: any Ledger
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())
    /// Allows one check at a time.
    private let lock = AsyncLock()

    package init(
        ledger: any Ledger, logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.ledger = ledger
        self.logger = logger
        self.now = now
    }

    /// The result of the last check; nil before the first.
    package var finding: Finding? { state.withLock { $0.finding } }

    /// A sentence for `status` if the chain is broken; else empty.
    package var warnings: [String] {
        guard let fault = finding?.fault else { return [] }
        return [
            "The record's chain is broken: \(fault). Verify the record, and find out who can write to the ledger."
        ]
    }

    /// The time since the last check; nil before the first.
    package var age: Duration? { finding.map { $0.at.duration(to: now()) } }

    package func start() -> Task<Void, Never> {
        Task.repeating(every: Self.pause) { await self.run() }
    }

    /// Forgets how far the record was checked. Called when another audit key, and possibly another ledger, is put into
    /// service.
    func reset() {
        state.withLock { state in
            let (generation, finding) = (state.generation + 1, state.finding)
            state = State(generation: generation, finding: finding)
        }
    }

    /// Changes the state, unless ``reset()`` was called since this check started.
    private func update(_ generation: Int, _ change: (inout State) -> Void) {
        state.withLock { if $0.generation == generation { change(&$0) } }
    }

    /// Checks the records that are new since the last check. If the ledger cannot be read, the last result remains.
    func run() async {
        await lock.acquire()
        defer { lock.release() }
        let generation = state.withLock { $0.generation }
        do throws(LedgerFailure) {
            var fault = try await check(generation)
            if fault != nil {
                // The audit key may have changed after the keys were read and before the lines were read. A valid
                // signature would then appear to be invalid, so the check is repeated.
                update(generation) { $0.progress = nil }
                fault = try await check(generation)
            }
            if fault != nil { update(generation) { $0.progress = nil } }
            storeResult(fault, generation)
        } catch {
            logger.warning("the record was not checked; retrying", metadata: ["reason": "\(error)"])
        }
    }

    private func storeResult(_ fault: String?, _ generation: Int) {
        let found = Finding(at: now(), fault: fault)
        let (isSame, before) = state.withLock { state in
            let before = state.finding
            guard state.generation == generation else { return (false, before) }
            state.finding = found
            return (true, before)
        }
        guard isSame else { return }
        if let fault, before?.fault != fault {
            logger.critical("the record's chain is broken", metadata: ["found": "\(fault)"])
        } else if fault == nil, before?.fault != nil {
            logger.notice("the record's chain is intact again")
        }
    }

    /// Checks the new part of the chain.
    /// - Returns: a description of the first break; nil if the chain is intact as far as it was read.
    private func check(_ generation: Int) async throws(LedgerFailure) -> String? {
        let head = try await ledger.head()
        let reached = state.withLock { $0.reached }
        guard head.sequence >= reached else {
            return "the record ends with record \(head.sequence), but had reached record \(reached)"
        }
        var progress = try await progress(upTo: head)
        defer { update(generation) { $0.progress = progress } }
        // The record at which the last check ended may have been sealed since then.
        if let sealed = try await ledger.firstCheckpoint(from: progress.position),
            sealed.checkpoint.sequence == progress.position
        {
            process(.checkpoint(sequence: progress.position, sealed.line), &progress, generation)
        }
        let last = min(head.sequence, progress.position + Self.maximumRecords)
        while progress.position < last, progress.verifier.fault == nil {
            let lines = try await ledger.lines(progress.position + 1...last, limit: Self.page)
            guard let read = lines.last?.sequence, read > progress.position else {
                return "records \(progress.position + 1) to \(last) are missing"
            }
            for line in lines { process(line, &progress, generation) }
            progress.position = read
        }
        if let fault = progress.verifier.fault { return fault.finding }
        update(generation) { $0.reached = progress.position }
        return nil
    }

    private func process(_ line: StoredLine, _ progress: inout Progress, _ generation: Int) {
        progress.verifier.consume(line: line.bytes)
        guard case .checkpoint = line, progress.verifier.fault == nil,
            let checkpoint = SignedCheckpoint(line: line.bytes)
        else { return }
        update(generation) { $0.anchor = checkpoint }
    }

    private func progress(upTo head: ChainHead) async throws(LedgerFailure) -> Progress {
        let keys = try await ledger.auditKeys().compactMap { $0.publicKey.flatMap(CheckpointKey.init(stored:)) }
        let keyIds = keys.map(\.keyId)
        let (known, anchor) = state.withLock { ($0.progress, $0.anchor) }
        if let known, known.keyIds == keyIds { return known }
        var verifier = ChainVerifier(keys: CheckpointKeys(keys))
        var start = anchor
        let archived = try await ledger.lastArchive()?.last ?? 0
        if start == nil, head.sequence > Self.recordsBeforeEnd || archived > 0 {
            start = try await ledger.latestCheckpoint(below: max(head.sequence - Self.recordsBeforeEnd, archived + 1))
        }
        if let start { verifier.consume(line: start.line) }
        return Progress(verifier: verifier, position: start?.checkpoint.sequence ?? 0, keyIds: keyIds)
    }
}
