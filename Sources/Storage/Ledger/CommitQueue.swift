import AuditChain
import Foundation
import Synchronization

/// A write that waits for an engine's writer.
protocol QueuedWrite: Sendable {
    /// The writer takes it into a batch. False when its caller's deadline has passed: then it is not written.
    var begin: @Sendable () -> Bool { get }
    var fail: @Sendable (LedgerFailure) -> Void { get }
}

/// The way of all writes of one ledger to its engine's one writer. What arrives while a commit is under way shares the next one,
/// and its sync. Each caller waits until the deadline.
///
/// Bounded: a write that finds no room is refused at once, and so is one that finds the writer stuck in a commit. Notes,
/// which nobody waits for, may fill half of it only, so that a flood of refusals does not keep out releases; those that
/// find no room are counted, and their number is recorded as soon as it can be.
final class CommitQueue<Write: QueuedWrite>: Sendable {
    enum Admission {
        /// The writer is idle: whoever entered this starts it.
        case begins
        /// The writer takes it with its next batch.
        case joins
        case full
        /// The writer has been in one commit for longer than anybody waits.
        case stuck
        case closed
    }

    /// Notes that were not recorded.
    private struct Dropped {
        var count: Int
        /// When the first of them was dropped.
        var since: Date
    }

    private struct State {
        var waiting: [Write] = []
        var notes = 0
        /// Since when the writer has been at its present batch; nil while it is idle.
        var writingSince: ContinuousClock.Instant?
        var isClosed = false
        var dropped: Dropped?
    }

    let releasesUnderWay = ReleasesUnderWay()
    private let capacity: Int
    private let deadlines: LedgerDeadlines
    private let observe: @Sendable (LedgerEvent) -> Void
    private let pause: @Sendable (Duration) -> Void
    /// A write of a record that nobody waits for.
    private let recording: @Sendable (AuditRecord, _ fail: @escaping @Sendable (LedgerFailure) -> Void) -> Write
    private let state = Mutex(State())

    /// - Parameters:
    ///   - capacity: how many writes may wait.
    ///   - deadlines: after their time in one batch the writer counts as stuck.
    ///   - pause: lets the calling thread sleep.
    init(
        capacity: Int, deadlines: LedgerDeadlines, observe: @escaping @Sendable (LedgerEvent) -> Void,
        pause: @escaping @Sendable (Duration) -> Void = { usleep(UInt32($0 / .microseconds(1))) },
        recording: @escaping @Sendable (AuditRecord, _ fail: @escaping @Sendable (LedgerFailure) -> Void) -> Write
    ) {
        self.capacity = capacity
        self.deadlines = deadlines
        self.observe = observe
        self.pause = pause
        self.recording = recording
    }

    /// Waits for a place, the commit and its answer, at most until the deadline.
    ///
    /// - Parameters:
    ///   - start: wakes the writer, which then takes what waits (``next()``) until there is nothing.
    ///   - make: the write, which answers the call.
    func write<Answer: Sendable>(
        start: () -> Void, _ make: (LedgerCall<Answer>) -> Write
    ) async throws(LedgerFailure) -> Answer {
        try await deadlines.answer { (call: LedgerCall<Answer>) in
            let write = make(call)
            switch enter(write, isNote: false) {
            case .begins: start()
            case .joins: break
            case .full: write.fail(.overloaded)
            case .stuck: write.fail(.timedOut(after: deadlines.timeout, mayStand: false))
            case .closed: write.fail(.unavailable(reason: "It is closed."))
            }
        }
    }

    /// Returns at once; nobody waits for it.
    func note(_ record: AuditRecord, start: () -> Void) {
        let lost = loss()
        switch enter(recording(record) { _ in lost() }, isNote: true) {
        case .begins: start()
        case .joins: break
        case .full, .stuck, .closed: lost()
        }
    }

    func enter(_ write: Write, isNote: Bool) -> Admission {
        state.withLock { state in
            guard !state.isClosed else { return .closed }
            let now = ContinuousClock.now
            // Notes wait as long as it takes: nobody waits for them.
            if !isNote, let since = state.writingSince, since.duration(to: now) >= deadlines.timeout { return .stuck }
            guard state.waiting.count < capacity, !isNote || state.notes < max(1, capacity / 2) else { return .full }
            state.waiting.append(write)
            if isNote { state.notes += 1 }
            guard state.writingSince == nil else { return .joins }
            state.writingSince = now
            return .begins
        }
    }

    /// All that waits and whose callers do, behind the record of what was dropped; nil when nothing waits, and then the writer is
    /// idle. Blocks for a moment while releases are under way that can share the commit (``ReleasesUnderWay``).
    ///
    /// That record fails like any other write, and is tried again with the next batch.
    func next() -> [Write]? {
        if let moment = releasesUnderWay.worthWaiting(with: waiting) { pause(moment) }
        let taken = state.withLock { state -> (waiting: [Write], dropped: Dropped?)? in
            guard !state.waiting.isEmpty else {
                state.writingSince = nil
                return nil
            }
            state.writingSince = .now
            defer { (state.waiting, state.notes, state.dropped) = ([], 0, nil) }
            return (state.waiting, state.dropped)
        }
        guard let (waiting, dropped) = taken else { return nil }
        let record = dropped.map { dropped in
            recording(
                AuditRecord(
                    time: AuditTime(Date()),
                    event: .recordsDropped(count: dropped.count, since: AuditTime(dropped.since)),
                    outcome: .refused(.ledgerUnavailable))
            ) { [self] _ in drop(dropped) }
        }
        return (record.map { [$0] } ?? []) + waiting.filter { $0.begin() }
    }

    /// How many wait now.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Nothing enters from now on; what waits is still written.
    func close() {
        state.withLock { $0.isClosed = true }
    }

    private func drop(_ dropped: Dropped) {
        state.withLock { state in
            state.dropped = Dropped(
                count: dropped.count + (state.dropped?.count ?? 0),
                since: min(dropped.since, state.dropped?.since ?? .distantFuture))
        }
    }

    /// True if notes were dropped that no record counts yet.
    var hasDropped: Bool { state.withLock { $0.dropped != nil } }

    /// Counts one record that was not written though nobody hears of it; the time is that of this call.
    func loss() -> @Sendable () -> Void {
        let dropped = Dropped(count: 1, since: Date())
        return { [self] in
            drop(dropped)
            observe(.dropped(notes: dropped.count))
        }
    }
}

/// How many releases are on their way to the ledger: what they are for is with the HSM or has just come back.
///
/// A commit costs the same for one release as for many. Under load the next ones are there within a moment, so the writer
/// waits for them: for 40 µs each, which is less than a tenth of what each has waited for the HSM already, and 5 ms
/// at most. A release that is alone waits for nobody.
public final class ReleasesUnderWay: Sendable {
    private static let moment = Duration.microseconds(40)
    private static let longest = Duration.milliseconds(5)

    private let count = Atomic(0)

    public init() {}

    /// To be followed by ``end()``, whatever becomes of it.
    public func begin() { count.add(1, ordering: .relaxed) }

    public func end() { count.subtract(1, ordering: .relaxed) }

    /// - Parameter waiting: how many writes wait for the writer; releases among them do not come again.
    func worthWaiting(with waiting: Int) -> Duration? {
        let others = count.load(ordering: .relaxed) - waiting
        guard waiting > 0, others > 0 else { return nil }
        return min(Self.moment * others, Self.longest)
    }
}

/// Where the chain ended when this process last wrote: one head, or two when it is not known whether a commit took place.
///
/// Nobody else writes, so the chain ends there still when the next transaction begins. Where it does not, another
/// program has changed the ledger or copied an older one over it, and with the records claims may be gone.
final class LastEnd: Sendable {
    /// Empty until the first commit.
    private let ends = Mutex<[ChainHead]>([])

    func set(_ ends: [ChainHead]) {
        self.ends.withLock { $0 = ends }
    }

    /// The end of what is known to be written; nil before the first commit.
    var known: ChainHead? { ends.withLock { $0.first } }

    /// Whether the chain may end there.
    func permits(_ head: ChainHead) -> Bool { ends.withLock { $0.isEmpty || $0.contains(head) } }

    /// - Returns: `head`, when the chain may end there.
    func checked(_ head: ChainHead) throws(LedgerFailure) -> ChainHead {
        guard permits(head) else {
            throw .unavailable(
                reason: "Its audit record does not end where this process left it: another program changed the ledger, "
                    + "or copied an older one over it, so nothing is written. Stop the daemon, and put back the ledger "
                    + "as it was; the next start compares it with the HSM token.")
        }
        return head
    }
}
