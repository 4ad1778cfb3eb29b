import AuditChain
import Foundation

/// A write that waits for an engine's writer.
protocol QueuedWrite: Sendable {
    /// The writer takes it into a batch. False when its caller's deadline has passed: then it is not written.
    var begin: @Sendable () -> Bool { get }
    var fail: @Sendable (LedgerFailure) -> Void { get }
}

/// The way of all writes of one ledger to its engine's writer: they wait in a bounded queue, each caller until the deadline,
/// and what finds no room is refused. Notes that are dropped are counted, and their number is recorded as soon as it can be.
final class LedgerWrites<Write: QueuedWrite>: Sendable {
    typealias Dropped = CommitQueue<Write>.Dropped

    private let queue: CommitQueue<Write>
    private let deadlines: LedgerDeadlines
    private let observe: @Sendable (LedgerEvent) -> Void
    /// A write of a record that nobody waits for.
    private let recording: @Sendable (AuditRecord, _ fail: @escaping @Sendable (LedgerFailure) -> Void) -> Write

    init(
        capacity: Int, deadlines: LedgerDeadlines, observe: @escaping @Sendable (LedgerEvent) -> Void,
        recording: @escaping @Sendable (AuditRecord, _ fail: @escaping @Sendable (LedgerFailure) -> Void) -> Write
    ) {
        queue = CommitQueue(capacity: capacity, patience: deadlines.timeout)
        self.deadlines = deadlines
        self.observe = observe
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
            switch queue.enter(write, isNote: false) {
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
        switch queue.enter(recording(record) { _ in lost() }, isNote: true) {
        case .begins: start()
        case .joins: break
        case .full, .stuck, .closed: lost()
        }
    }

    /// A write of the engine's own, for which nobody waits; left out where there is no room.
    func enter(_ write: Write, start: () -> Void) {
        if case .begins = queue.enter(write, isNote: true) { start() }
    }

    /// All that waits and whose callers do, behind the record of what was dropped; nil when nothing waits.
    ///
    /// That record fails like any other write, and is tried again with the next batch.
    func next() -> [Write]? {
        guard let waiting = queue.next() else { return nil }
        var writes: [Write] = []
        if let dropped = queue.takeDropped() {
            let record = AuditRecord(
                time: AuditTime(Date()), event: .recordsDropped(count: dropped.count, since: AuditTime(dropped.since)),
                outcome: .refused(.ledgerUnavailable))
            writes.append(recording(record) { [queue] _ in queue.drop(dropped) })
        }
        return writes + waiting.filter { $0.begin() }
    }

    /// Counts one record that was not written though nobody hears of it; the time is that of this call.
    func loss() -> @Sendable () -> Void {
        let dropped = Dropped(count: 1, since: Date())
        return { [self] in
            queue.drop(dropped)
            observe(.dropped(notes: dropped.count))
        }
    }

    var releasesUnderWay: ReleasesUnderWay { queue.releasesUnderWay }

    /// How many writes wait for the next batch.
    var waiting: Int { queue.waiting }

    /// Whether notes were dropped that no record counts yet.
    var hasDropped: Bool { queue.hasDropped }

    /// What comes now is refused; what waits is still written.
    func close() { queue.close() }
}
