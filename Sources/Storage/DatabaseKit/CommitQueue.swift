import Dispatch
package import Foundation
import Synchronization

/// A write that is queued for an engine's writer.
package protocol QueuedWrite: Sendable {
    associatedtype Failure: StoreFailure
    /// Called when the writer takes the write into a batch. Returns false if the caller's deadline has passed; the
    /// write is then skipped.
    var begin: @Sendable () -> Bool { get }
    var fail: @Sendable (Failure) -> Void { get }
}

/// The queue of all writes of one store, for the engine's single writer. Writes that arrive during a commit share the
/// next one, and its sync. Each caller waits until the deadline.
///
/// The queue is bounded: a write that finds it full, or finds the writer stuck in a commit, is refused immediately.
/// Notes, which no caller waits for, may fill only half of it, so that a flood of refusals does not exclude releases.
/// Notes that do not fit are counted, and their number is written as soon as possible.
package final class CommitQueue<Write: QueuedWrite>: Sendable {
    package enum Admission {
        /// The writer is idle: the caller that added this write starts it.
        case begins
        /// The writer takes the write with its next batch.
        case joins
        case full
        /// The writer has been in one commit for longer than any caller waits.
        case stuck
        case closed
    }

    package typealias Failure = Write.Failure

    /// The notes that were not written.
    package struct Dropped: Sendable {
        package var count: Int
        /// The time at which the first note was dropped.
        package var since: Date
    }

    private struct State {
        var waiting: [Write] = []
        var notes = 0
        /// The time at which the writer began its current batch; nil while it is idle.
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
    ///   - capacity: the maximum number of queued writes.
    ///   - deadlines: the writer counts as stuck after their time-out in one batch.
    ///   - moment: the time for which a commit waits for further writes, given the number of writes already waiting.
    ///   - pause: lets the calling thread sleep.
    ///   - counting: makes a write that contains the number of dropped notes.
    ///   - observeDrop: called for each dropped note.
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

    /// Queues a write, and waits for its commit and answer, at most until the deadline.
    ///
    /// - Parameters:
    ///   - start: wakes the writer, which then takes the queued writes (``next()``) until the queue is empty.
    ///   - make: makes the write, which answers the call.
    package func write<Answer: Sendable>(
        start: () -> Void, _ make: (Call<Answer, Failure>) -> Write
    ) async throws(Failure) -> Answer {
        try await deadlines.answer { (call: Call<Answer, Failure>) in
            let write = make(call)
            switch enter(write, isNote: false) {
            case .begins: start()
            case .joins: break
            case .full: write.fail(.overloaded)
            case .stuck: write.fail(.timedOut(after: deadlines.timeout, mayBeWritten: false))
            case .closed: write.fail(.unavailable(reason: "It is closed."))
            }
        }
    }

    /// Queues a note and returns immediately; no caller waits for it.
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
            // Notes have no deadline, because no caller waits for them.
            if !isNote, let since = state.writingSince, since.duration(to: now) >= deadlines.timeout { return .stuck }
            guard state.waiting.count < capacity, !isNote || state.notes < max(1, capacity / 2) else { return .full }
            state.waiting.append(write)
            if isNote { state.notes += 1 }
            guard state.writingSince == nil else { return .joins }
            state.writingSince = now
            return .begins
        }
    }

    /// All queued writes whose callers still wait, preceded by the count of dropped notes. Nil if the queue is empty;
    /// the writer is then idle. Blocks briefly while other calls that can share the commit are in progress.
    ///
    /// The record of that count can fail like any other write, and is then retried with the next batch.
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

    /// The number of queued writes.
    package var waiting: Int { state.withLock { $0.waiting.count } }

    /// Refuses further writes; queued ones are still written.
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

    /// True if notes were dropped that have not been counted yet.
    package var hasDropped: Bool { state.withLock { $0.dropped != nil } }

    /// Returns a function that counts one note as not written, for a note whose caller is not informed. The note's time
    /// is that of this call.
    package func loss() -> @Sendable () -> Void {
        let dropped = Dropped(count: 1, since: Date())
        return { [self] in
            drop(dropped)
            observeDrop()
        }
    }
}

/// The failures that this module detects, in the form of a store's own error.
package protocol StoreFailure: Error {
    /// Nothing can be written or read now, or nothing could be made durable.
    static func unavailable(reason: String) -> Self
    /// - Parameter mayBeWritten: true if the change may have been written, or may still be.
    static func timedOut(after timeout: Duration, mayBeWritten: Bool) -> Self
    /// The queue is full. Nothing was written.
    static var overloaded: Self { get }

    /// Contains only codes and fixed sentences of the error, so that a statement's values stay out of logs.
    init(_ error: any Error)

    /// The failure of a change that may have been committed, but cannot be read back.
    var asPossiblyWritten: Self { get }
}

extension StoreFailure {
    package var asPossiblyWritten: Self { self }
}

/// A column that is missing, is unexpectedly NULL, or does not have the expected type, because another program has
/// changed the tables. The error does not contain the value.
package struct UnreadableColumn: Error, Sendable, Equatable {
    /// The column's index, from 0.
    package let column: Int

    package init(column: Int) { self.column = column }
}

/// Runs blocking work on a thread other than those that tasks run on.
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
