import Dispatch
import Synchronization

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
            // A later call has a later deadline, so the timer is never set too late.
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

    /// The time for which the caller still waits.
    package var left: Duration {
        let (deadline, now) = (deadline, DispatchTime.now().uptimeNanoseconds)
        return deadline > now ? .nanoseconds(Int64(clamping: deadline - now)) : .zero
    }

    /// Removes the deadline; the caller then waits for the engine.
    package func removeDeadline() {
        state.withLock { $0.deadline = .max }
    }

    package var deadline: UInt64 { state.withLock { $0.deadline } }

    /// Takes the call and answers it in one step. The engine therefore cannot begin a call that is being answered as
    /// never begun, and a call whose deadline was extended is not affected.
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
