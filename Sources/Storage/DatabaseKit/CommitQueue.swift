import Dispatch
package import Foundation
import Locks

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
        /// The writer is idle. The caller that added this write starts the writer.
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
    ///   - deadlines: the deadlines of the calls. The writer counts as stuck if one batch takes longer than their
    ///     time-out.
    ///   - moment: returns the time for which a commit waits for further writes. Its argument is the number of writes
    ///     already queued.
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

    /// Takes all queued writes whose callers still wait, preceded by a write of the number of dropped notes if there
    /// are any. Nil if the queue is empty; the writer is then idle. Blocks briefly while other calls that can share the
    /// commit are in progress.
    ///
    /// If the write of that number fails, the next batch retries it.
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

    /// Returns a function that counts one note as dropped, at the time of the call to `loss()`. The writer calls it if
    /// it cannot write the note and no caller receives the failure.
    package func loss() -> @Sendable () -> Void {
        let dropped = Dropped(count: 1, since: Date())
        return { [self] in
            drop(dropped)
            observeDrop()
        }
    }
}

/// A store's error type, with the failures that this module itself detects.
package protocol StoreFailure: Error {
    /// Nothing can be written or read now, or nothing could be made durable.
    static func unavailable(reason: String) -> Self
    /// - Parameter mayBeWritten: true if the change may have been written, or may still be.
    static func timedOut(after timeout: Duration, mayBeWritten: Bool) -> Self
    /// The queue is full. Nothing was written.
    static var overloaded: Self { get }

    /// Makes the failure from the codes and fixed sentences of an error only, so that a statement's values stay out of
    /// logs.
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

/// The maximum time that callers wait for a store, such as `ledger.timeout`.
///
/// A disk that hangs, or a database server that does not respond, blocks the waiting thread, and nothing can release
/// it. The caller does not wait with that thread: each call is answered by the engine or by its deadline, whichever
/// comes first. An engine's answer after the deadline is discarded.
///
/// There is one instance for each store, and every engine reads and writes through ``answer(_:)``.
package final class Deadlines<Failure: StoreFailure>: Sendable {
    private struct State {
        /// The unanswered calls, in the order of their arrival.
        var calls: [UInt64: any ExpiringCall] = [:]
        var next: UInt64 = 0
        /// True while a timer runs. The timer is set for the earliest deadline known when it was started.
        var hasTimer = false
    }

    package let timeout: Duration
    private let nanoseconds: UInt64
    private let state = Mutex(State())

    package init(timeout: Duration) {
        self.timeout = timeout
        let (seconds, attoseconds) = timeout.components
        nanoseconds = UInt64(max(0, seconds)) * 1_000_000_000 + UInt64(max(0, attoseconds)) / 1_000_000_000
    }

    /// Passes a call to the engine, and waits for its answer or for the deadline.
    ///
    /// - Parameter ask: passes the call to the engine and returns immediately; it must not block.
    /// - Throws: the engine's error, or `timedOut`.
    package func answer<Answer: Sendable>(_ ask: (Call<Answer, Failure>) -> Void) async throws(Failure) -> Answer {
        var number: UInt64?
        let result = await withCheckedContinuation {
            (waiting: CheckedContinuation<Result<Answer, Failure>, Never>) in
            let call = Call(waiting, expiresAfter: nanoseconds, timeout: timeout)
            number = enter(call)
            ask(call)
        }
        if let number { state.withLock { $0.calls[number] = nil } }
        return try result.get()
    }

    private func enter(_ call: any ExpiringCall) -> UInt64 {
        state.withLock { state in
            let number = state.next
            state.next += 1
            state.calls[number] = call
            if !state.hasTimer {
                state.hasTimer = true
                setTimer(call.deadline)
            }
            return number
        }
    }

    private func setTimer(_ deadline: UInt64) {
        DispatchQueue.global().asyncAfter(deadline: DispatchTime(uptimeNanoseconds: deadline)) { [weak self] in
            self?.expire(asOf: DispatchTime.now().uptimeNanoseconds)
        }
    }

    /// Answers all calls whose deadline has passed at `now`, in nanoseconds of the system's uptime.
    package func expire(asOf now: UInt64) {
        let due = state.withLock { $0.calls.filter { $0.value.deadline <= now } }
        let ended = due.filter { $0.value.expire(asOf: now) }
        state.withLock { state in
            for number in ended.keys { state.calls[number] = nil }
            // All calls have the same time-out, so a call that arrives later has a later deadline. A timer for the
            // earliest deadline known now is therefore early enough for it.
            let earliest = state.calls.values.lazy.map(\.deadline).filter { $0 < .max }.min()
            state.hasTimer = earliest != nil
            if let earliest { setTimer(earliest) }
        }
    }
}

private protocol ExpiringCall: Sendable {
    /// The deadline in nanoseconds of the system's uptime, as Dispatch counts them. It may be postponed.
    var deadline: UInt64 { get }
    /// Answers the call, unless its deadline has been postponed beyond `now`.
    /// - Returns: true if the call was due.
    func expire(asOf now: UInt64) -> Bool
}

/// A call whose caller waits for the engine's answer or for the deadline, whichever is first.
package final class Call<Answer: Sendable, Failure: StoreFailure>: ExpiringCall {
    private typealias Waiting = CheckedContinuation<Result<Answer, Failure>, Never>

    private struct State {
        var waiting: Waiting?
        var hasBegun = false
        var deadline: UInt64
    }

    private let state: Mutex<State>
    private let allowance: UInt64
    private let timeout: Duration

    fileprivate init(
        _ waiting: CheckedContinuation<Result<Answer, Failure>, Never>, expiresAfter allowance: UInt64,
        timeout: Duration
    ) {
        self.allowance = allowance
        self.timeout = timeout
        state = Mutex(State(waiting: waiting, deadline: Self.time(in: allowance)))
    }

    private static func time(in allowance: UInt64) -> UInt64 {
        let (time, overflows) = DispatchTime.now().uptimeNanoseconds.addingReportingOverflow(allowance)
        return overflows ? .max : time
    }

    /// Marks the call as begun by the engine.
    ///
    /// - Returns: false if the deadline has passed; the engine must then do nothing.
    package func begin() -> Bool {
        state.withLock { state in
            state.hasBegun = true
            return state.waiting != nil
        }
    }

    /// - Returns: false if the deadline came first; no caller then receives the answer.
    @discardableResult
    package func resume(_ result: Result<Answer, Failure>) -> Bool {
        let waiting = state.withLock { state in
            defer { state.waiting = nil }
            return state.waiting
        }
        waiting?.resume(returning: result)
        return waiting != nil
    }

    /// Restarts the deadline of a long call, because the engine has made progress.
    ///
    /// - Returns: false if the deadline has passed.
    @discardableResult
    package func extendDeadline() -> Bool {
        state.withLock { state in
            state.deadline = max(state.deadline, Self.time(in: allowance))
            return state.waiting != nil
        }
    }

    /// Removes the deadline; the caller then waits for the engine.
    package func removeDeadline() {
        state.withLock { $0.deadline = .max }
    }

    package var deadline: UInt64 { state.withLock { $0.deadline } }

    /// Checks the deadline and takes the call under one lock. Otherwise the engine could begin a call whose caller
    /// learns that it never began, or a call could expire whose deadline was just extended.
    package func expire(asOf now: UInt64) -> Bool {
        let (waiting, mayBeWritten, isDue) = state.withLock { state in
            guard state.deadline <= now else { return (nil as Waiting?, false, false) }
            defer { state.waiting = nil }
            return (state.waiting, state.hasBegun, true)
        }
        waiting?.resume(returning: .failure(.timedOut(after: timeout, mayBeWritten: mayBeWritten)))
        return isDue
    }
}
