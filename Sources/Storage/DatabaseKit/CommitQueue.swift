import Dispatch
package import Foundation
import Synchronization

/// A write that waits for an engine's writer.
package protocol QueuedWrite: Sendable {
    associatedtype Failure: StoreFailure
    /// The writer takes it into a batch. False when its caller's deadline has passed: then it is not written.
    var begin: @Sendable () -> Bool { get }
    var fail: @Sendable (Failure) -> Void { get }
}

/// The way of all writes of one store to its engine's one writer. What arrives while a commit is under way shares the next one,
/// and its sync. Each caller waits until the deadline.
///
/// Bounded: a write that finds no room is refused at once, and so is one that finds the writer stuck in a commit. Notes,
/// which nobody waits for, may fill half of it only, so that a flood of refusals does not keep out releases; those that
/// find no room are counted, and their number is written as soon as it can be.
package final class CommitQueue<Write: QueuedWrite>: Sendable {
    package enum Admission {
        /// The writer is idle: whoever entered this starts it.
        case begins
        /// The writer takes it with its next batch.
        case joins
        case full
        /// The writer has been in one commit for longer than anybody waits.
        case stuck
        case closed
    }

    package typealias Failure = Write.Failure

    /// Notes that were not written.
    package struct Dropped: Sendable {
        package var count: Int
        /// When the first of them was dropped.
        package var since: Date
    }

    private struct State {
        var waiting: [Write] = []
        var notes = 0
        /// Since when the writer has been at its present batch; nil while it is idle.
        var writingSince: ContinuousClock.Instant?
        var isClosed = false
        var dropped: Dropped?
    }

    private let capacity: Int
    private let deadlines: Deadlines<Failure>
    private let moment: @Sendable (Int) -> Duration?
    private let pause: @Sendable (Duration) -> Void
    private let counting: @Sendable (Dropped, _ fail: @escaping @Sendable (Failure) -> Void) -> Write?
    private let observeDrop: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - capacity: how many writes may wait.
    ///   - deadlines: after their time in one batch the writer counts as stuck.
    ///   - moment: the time for which a commit waits for further writes, for a number of those that wait for it.
    ///   - pause: lets the calling thread sleep.
    ///   - counting: a write that says how many notes were dropped.
    ///   - observeDrop: called for each note that is dropped.
    package init(
        capacity: Int, deadlines: Deadlines<Failure>, moment: @escaping @Sendable (Int) -> Duration? = { _ in nil },
        pause: @escaping @Sendable (Duration) -> Void = { usleep(UInt32($0 / .microseconds(1))) },
        counting: @escaping @Sendable (Dropped, _ fail: @escaping @Sendable (Failure) -> Void) -> Write? = { _, _ in nil
        },
        observeDrop: @escaping @Sendable () -> Void = {}
    ) {
        self.capacity = capacity
        self.deadlines = deadlines
        self.moment = moment
        self.pause = pause
        self.counting = counting
        self.observeDrop = observeDrop
    }

    /// Waits for a place, the commit and its answer, at most until the deadline.
    ///
    /// - Parameters:
    ///   - start: wakes the writer, which then takes what waits (``next()``) until there is nothing.
    ///   - make: the write, which answers the call.
    package func write<Answer: Sendable>(
        start: () -> Void, _ make: (Call<Answer, Failure>) -> Write
    ) async throws(Failure) -> Answer {
        try await deadlines.answer { (call: Call<Answer, Failure>) in
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
    package func note(start: () -> Void, _ make: (_ fail: @escaping @Sendable (Failure) -> Void) -> Write) {
        let lost = loss()
        switch enter(make { _ in lost() }, isNote: true) {
        case .begins: start()
        case .joins: break
        case .full, .stuck, .closed: lost()
        }
    }

    package func enter(_ write: Write, isNote: Bool) -> Admission {
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

    /// All that waits and whose callers do, after the count of what was dropped; nil when nothing waits, and then the writer is
    /// idle. Blocks for a moment while others are under way that can share the commit.
    ///
    /// The record of that count fails like any other write, and is tried again with the next batch.
    package func next() -> [Write]? {
        if let moment = moment(waiting) { pause(moment) }
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
        let count = dropped.flatMap { dropped in counting(dropped) { [self] _ in drop(dropped) } }
        return (count.map { [$0] } ?? []) + waiting.filter { $0.begin() }
    }

    /// How many wait now.
    package var waiting: Int { state.withLock { $0.waiting.count } }

    /// Nothing enters from now on; what waits is still written.
    package func close() {
        state.withLock { $0.isClosed = true }
    }

    private func drop(_ dropped: Dropped) {
        state.withLock { state in
            state.dropped = Dropped(
                count: dropped.count + (state.dropped?.count ?? 0),
                since: min(dropped.since, state.dropped?.since ?? .distantFuture))
        }
    }

    /// True if notes were dropped that are not counted yet.
    package var hasDropped: Bool { state.withLock { $0.dropped != nil } }

    /// Counts one note that was not written though nobody hears of it; the time is that of this call.
    package func loss() -> @Sendable () -> Void {
        let dropped = Dropped(count: 1, since: Date())
        return { [self] in
            drop(dropped)
            observeDrop()
        }
    }
}

/// The failures that the kit finds, as a store's own error has them.
package protocol StoreFailure: Error {
    /// Nothing can be written or read now, or could be made durable.
    static func unavailable(reason: String) -> Self
    /// - Parameter mayStand: whether what was asked for may have been written, or be written yet.
    static func timedOut(after timeout: Duration, mayStand: Bool) -> Self
    /// More wait than may wait. Nothing was written.
    static var overloaded: Self { get }

    /// Only codes and fixed sentences of what was thrown: a statement's values stay out of logs.
    init(_ error: any Error)

    /// The failure of a change that may stand all the same, since it cannot be read back.
    var whereItMayStand: Self { get }
}

extension StoreFailure {
    package var whereItMayStand: Self { self }
}

/// A column that is not there, is NULL where that may not be, or has another type than the program knows: another program has
/// changed the tables. The value is not in it.
package struct UnreadableColumn: Error, Sendable, Equatable {
    /// From 0.
    package let column: Int

    package init(column: Int) { self.column = column }
}

/// Runs what blocks on another thread than those that tasks run on.
package func onThread<Value: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Value
) async throws(Failure) -> Value {
    let result = await withCheckedContinuation { (waiting: CheckedContinuation<Result<Value, Failure>, Never>) in
        DispatchQueue.global().async {
            waiting.resume(returning: Result { () throws(Failure) in try body() })
        }
    }
    return try result.get()
}
