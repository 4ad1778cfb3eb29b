import Locks
import NIOCore
import WorkerProtocol

/// The calls of one HSM token: those that wait in the daemon, and those that were sent to a worker.
///
/// ``HSMTokenPool`` and ``HSMToken`` make calls with ``call(_:terms:orAt:_:)``, which alone decides whether to repeat a
/// call. Each ``submit(_:terms:)`` is one attempt. ``WorkerSupervisor`` reports which worker serves, and which has ended.
/// Each attempt follows these rules:
///
/// - Callers are served round robin, and the number of waiting calls is limited (``WaitingCalls``).
/// - A worker gets as many calls as keep its sessions busy (``CallPace``). The queue ends a worker whose session works on
///   one call for longer than the call's limit (``WorkerCalls``).
/// - Every call ends: with the worker's answer, when the worker ends, at its deadline, or when it has waited too long.
/// - When a worker ends, any of its calls may be the cause, so each is repeated alone. If a second worker ends during
///   the repetition, all workers refuse that call's input for a while (``RefusedInputs``).
final class CallQueue: Sendable {
    struct Limits: Sendable {
        /// The maximum number of calls that one worker has at a time. A worker of a slow HSM token gets fewer.
        var window: Int
        /// The maximum number of waiting calls of all callers; a single caller gets half. A call beyond that fails with
        /// `overloaded`.
        var waiting: Int
        var callTimeout: Duration
        /// The number of answers after which a worker is due for replacement.
        var recycleAfter: Int
        /// The number of calls that a worker processes at a time, in the order of arrival. The worker queues its other
        /// calls.
        var sessions = Int.max
    }

    private struct State {
        var waiting: WaitingCalls
        /// All workers that have not ended, by worker number.
        var workers: [UInt64: WorkerCalls] = [:]
        /// True while a worker has a call that runs alone. The queue sends no other call during that time.
        var isRunningAlone = false
        /// The number of the worker that receives new calls; nil while none serves. ``hsmToken`` describes that
        /// worker's HSM token. ``servingSince`` is the time since which a worker has served without a break.
        var serving: UInt64?
        var hsmToken: HSMTokenDescription?
        var servingSince = ContinuousClock.now
        /// The failure with which the queue refuses new calls; nil while it accepts them.
        var refusal: WorkerFailure?
        /// The latest failure that cost a worker.
        var latestFailure: WorkerFailure?
        /// True if ``refusal`` is final, since no worker will serve again.
        var isGivenUp = false
        var nextIdentifier: UInt64 = 1
        var nextPlace: UInt64 = 1
        var pace = CallPace()
        var deferred: DeferredActions = []

        init(waiting: Int) {
            self.waiting = WaitingCalls(capacity: waiting)
        }

        var heldCount: Int { workers.values.reduce(0) { $0 + $1.count } }
    }

    private let limits: Limits
    private let events: WorkerEvents
    private let refusedInputs: RefusedInputs
    private let recycleDue: @Sendable (UInt64) -> Void
    private let state: Mutex<State>

    /// - Parameters:
    ///   - refusedInputs: the inputs that are sent to no worker. All HSM tokens share them.
    ///   - recycleDue: receives the serving worker's number when it has answered ``Limits/recycleAfter`` calls.
    init(
        limits: Limits, events: WorkerEvents, refusedInputs: RefusedInputs = RefusedInputs(),
        recycleDue: @escaping @Sendable (UInt64) -> Void
    ) {
        self.limits = limits
        self.events = events
        self.refusedInputs = refusedInputs
        self.recycleDue = recycleDue
        state = Mutex(State(waiting: limits.waiting))
    }

    /// Changes the state, and runs the deferred actions after releasing the lock.
    private func change<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        let (value, deferred) = state.withLock { state in
            defer { state.deferred = [] }
            return (body(&state), state.deferred)
        }
        for action in deferred { action() }
        return value
    }

    var latestFailure: WorkerFailure? { state.withLock { $0.latestFailure } }

    // MARK: Calls

    /// Makes one attempt at the serving worker. The call waits for earlier calls of the same caller; callers take turns.
    func submit(_ request: WorkerRequest, terms: CallTerms = CallTerms()) async -> CallResult {
        await withCheckedContinuation { continuation in
            change { state in
                guard let call = makeCall(request, terms, continuation, &state) else { return }
                if let refusal = state.refusal {
                    call.finish(refusal, &state.deferred)
                } else if let seconds = refusedInputs.secondsLeft(of: call.frame, now: .now) {
                    call.finish(
                        WorkerFailure(
                            .inputRefused, "Two workers ended while they processed this input.", retryAfter: seconds),
                        &state.deferred)
                } else if !state.waiting.admits(terms) {
                    call.finish(
                        WorkerFailure(
                            .overloaded,
                            "\(state.waiting.count) calls already wait for the HSM token, too many from this caller."
                        ), &state.deferred)
                } else {
                    state.waiting.append(call)
                    dispatch(&state, at: .now)
                }
            }
        }
    }

    /// Sends a call at once to a worker that does not serve yet, without queueing it.
    func submit(_ request: WorkerRequest, to worker: UInt64) async -> CallResult {
        await withCheckedContinuation { continuation in
            change { state in
                guard let call = makeCall(request, CallTerms(), continuation, &state) else { return }
                guard state.workers[worker] != nil else {
                    call.finish(WorkerFailure(.hsmTokenUnavailable, "The worker ended."), &state.deferred)
                    return
                }
                assign(call, to: worker, at: .now, &state)
            }
        }
    }

    /// Creates a call and numbers it.
    /// - Returns: nil if the request does not fit into a frame; the call has then already failed.
    private func makeCall(
        _ request: WorkerRequest, _ terms: CallTerms, _ continuation: CheckedContinuation<CallResult, Never>,
        _ state: inout State
    ) -> PendingCall? {
        let identifier = state.nextIdentifier
        state.nextIdentifier += 1
        let isOpening = if case .open = request { true } else { false }
        do throws(FrameError) {
            return PendingCall(
                identifier: identifier, operation: request.operation, isOpening: isOpening,
                frame: try request.encoded(identifier: identifier), continuation: continuation, waitingSince: .now,
                terms: terms)
        } catch {
            let failure = WorkerFailure(.protocolViolation, "A field of the request is too long.")
            state.deferred.append {
                continuation.resume(returning: .failure(CallFailure(failure: failure, stage: .queue)))
            }
            return nil
        }
    }

    private func dispatch(_ state: inout State, at now: ContinuousClock.Instant) {
        guard !state.isRunningAlone, let worker = state.serving, let held = state.workers[worker]?.count else { return }
        if state.waiting.nextRunsAlone {
            guard held == 0, let call = state.waiting.popFirst(&state.deferred) else { return }
            state.isRunningAlone = true
            assign(call, to: worker, at: now, &state)
            return
        }
        var room = state.pace.window(sessions: limits.sessions, atMost: limits.window) - held
        while room > 0, let call = state.waiting.popFirst(&state.deferred) {
            assign(call, to: worker, at: now, &state)
            room -= 1
        }
    }

    private func assign(_ call: PendingCall, to worker: UInt64, at now: ContinuousClock.Instant, _ state: inout State) {
        state.workers[worker]?.send(call, place: state.nextPlace, at: now)
        state.nextPlace += 1
    }

    // MARK: Answers

    /// Processes a worker's answer.
    /// - Returns: false if the worker had no such call. The caller must then end that worker.
    func received(
        _ answer: WorkerAnswer, for identifier: UInt64, from worker: UInt64, now: ContinuousClock.Instant = .now
    ) -> Bool {
        change { state in
            guard let answered = state.workers[worker]?.take(answer, for: identifier, at: now) else { return false }
            let call = answered.call
            if call.terms.runsAlone { state.isRunningAlone = false }
            events.metrics?.called(call.operation, answered.seconds)
            if case .plaintext = answer { state.pace.took(answered.seconds) }
            if case .failed(let failure) = answer {
                if call.isOpening {
                    // A worker that could not open its HSM token ends by itself. That must not count as a crash.
                    close(worker, &state)
                } else if failure.requiresNewWorker {
                    withdraw(worker, &state)
                    state.workers[worker]?.hsmTokenHasFailed = true
                    state.latestFailure = failure
                    kill(worker, .hsmToken, &state)
                }
                call.finish(failure, stage: .worker, &state.deferred)
            } else {
                call.finish(.success(answer), &state.deferred)
            }
            countAnswer(of: worker, &state)
            dispatch(&state, at: now)
            return true
        }
    }

    private func countAnswer(of worker: UInt64, _ state: inout State) {
        if state.serving == worker {
            guard state.workers[worker]?.countAnswer(recycleAfter: limits.recycleAfter) == true else { return }
            state.deferred.append { [recycleDue] in recycleDue(worker) }
        } else {
            closeIfDone(worker, &state)
        }
    }

    /// Closes a worker that used to serve, once it has no calls left.
    private func closeIfDone(_ worker: UInt64, _ state: inout State) {
        guard state.workers[worker]?.hasServed == true, state.workers[worker]?.count == 0 else { return }
        close(worker, &state)
    }

    private func close(_ worker: UInt64, _ state: inout State) {
        if let close = state.workers[worker]?.worker.close { state.deferred.append(close) }
    }

    private func kill(_ worker: UInt64, _ reason: WorkerEvents.RestartReason, _ state: inout State) {
        if let kill = state.workers[worker]?.worker.kill { state.deferred.append { kill(reason) } }
    }

    // MARK: Workers

    /// Adds a worker that does not serve yet. It gets only calls from ``submit(_:to:)``.
    func add(_ worker: ConnectedWorker) {
        state.withLock {
            $0.workers[worker.number] = WorkerCalls(worker, sessions: limits.sessions, metrics: events.metrics)
        }
    }

    /// Sends new calls to this worker from now on. The previously serving worker finishes its calls and then ends.
    /// - Returns: false if this worker has ended in the meantime, or the queue has given up.
    func serve(
        with worker: UInt64, opened hsmToken: HSMTokenDescription? = nil, now: ContinuousClock.Instant = .now
    ) -> Bool {
        change { state in
            guard state.workers[worker] != nil, !state.isGivenUp else { return false }
            let former = state.serving
            if former == nil { state.servingSince = now }
            state.workers[worker]?.hasServed = true
            state.serving = worker
            state.hsmToken = hsmToken
            state.refusal = nil
            if let former { closeIfDone(former, &state) }
            dispatch(&state, at: now)
            return true
        }
    }

    private func withdraw(_ worker: UInt64, _ state: inout State) {
        if state.serving == worker { state.serving = nil }
    }

    /// Removes a worker that has ended. Its calls fail, although the HSM token may have carried them out.
    /// - Returns: true if the worker had answered calls while it served.
    @discardableResult
    func ended(_ worker: UInt64) -> Bool {
        change { state in
            withdraw(worker, &state)
            guard let entry = state.workers.removeValue(forKey: worker) else { return false }
            let (hsmTokenHasFailed, wasUseful) = (entry.hsmTokenHasFailed, entry.answersServing > 0)
            for call in entry.lost() {
                if call.terms.runsAlone {
                    state.isRunningAlone = false
                    if !hsmTokenHasFailed, call.mayBeAtFault { refusedInputs.insert(call.frame, now: .now) }
                }
                call.finish(call.failureAtEnd, stage: hsmTokenHasFailed ? .worker : .endedWorker, &state.deferred)
            }
            if state.serving == nil {
                state.waiting.fail(
                    WorkerFailure(.hsmTokenUnavailable, "The worker ended before it received the call."),
                    &state.deferred
                ) { !$0.terms.waitsForNextWorker }
            }
            dispatch(&state, at: .now)
            return wasUseful
        }
    }

    /// Fails all waiting calls, and new ones until a worker serves. Otherwise they would wait for a worker that will not
    /// come soon.
    func refuse(_ failure: WorkerFailure) {
        change { refuse(failure, &$0) }
    }

    private func refuse(_ failure: WorkerFailure, _ state: inout State) {
        // After giveUp, no later event of a worker may replace the final refusal.
        if !state.isGivenUp { state.refusal = failure }
        state.waiting.fail(failure, &state.deferred)
    }

    /// Fails every call now, including those that workers are processing, and refuses all later ones.
    /// - Returns: the number of calls that workers were processing.
    @discardableResult
    func giveUp(_ failure: WorkerFailure) -> Int {
        change { state in
            refuse(failure, &state)
            state.isGivenUp = true
            var answered = 0
            for worker in Array(state.workers.keys) {
                answered += state.workers[worker]?.abandon(failure, &state.deferred) ?? 0
            }
            return answered
        }
    }

    /// Closes the connection to a worker that failed to open its HSM token. The worker then ends.
    func close(_ worker: UInt64) {
        change { close(worker, &$0) }
    }

    /// Closes the connections to all workers. Each worker then ends.
    func closeAll() {
        change { state in
            for held in state.workers.values { state.deferred.append(held.worker.close) }
        }
    }

    // MARK: Time

    /// Fails calls that are past their deadline or waited too long, and ends workers that hang.
    func expire(now: ContinuousClock.Instant = .now) {
        change { state in
            for worker in Array(state.workers.keys) {
                state.workers[worker]?.abandon(PendingCall.deadlineExceeded, &state.deferred) {
                    $0.isPastDeadline(at: now)
                }
                if state.workers[worker]?.hangs(at: now, callTimeout: limits.callTimeout) == true {
                    withdraw(worker, &state)
                    kill(worker, .timeout, &state)
                }
            }
            state.waiting.fail(PendingCall.deadlineExceeded, &state.deferred) { $0.isPastDeadline(at: now) }
            failLateCalls(at: now, &state)
        }
    }

    /// Fails calls that waited too long.
    ///
    /// While a worker serves, a call may stay queued for ``HSMTokenPool/longestWait(callTimeout:)``. That time begins
    /// when the call is queued, or later, when the first worker after a break in service begins to serve. It is
    /// measured up to the worker's last answer, so it does not grow while the worker does not answer.
    ///
    /// While no worker serves, a call may stay queued for ``HSMTokenPool/deadline(callTimeout:)``. Calls that run alone
    /// fail only at their deadline: they are few, and must wait for each other and for a worker to start.
    private func failLateCalls(at now: ContinuousClock.Instant, _ state: inout State) {
        guard let serving = state.serving else {
            let patience = HSMTokenPool.deadline(callTimeout: limits.callTimeout)
            state.waiting.fail(
                WorkerFailure(.hsmTokenUnavailable, "No worker opened the HSM token in time."), &state.deferred
            ) { !$0.terms.runsAlone && now - $0.waitingSince > patience }
            return
        }
        guard let lastAnswer = state.workers[serving]?.lastAnswer else { return }
        let (since, most) = (state.servingSince, HSMTokenPool.longestWait(callTimeout: limits.callTimeout))
        state.waiting.fail(
            WorkerFailure(.overloaded, "The call waited too long for the HSM token, which is slow or busy."),
            &state.deferred
        ) { !$0.terms.runsAlone && lastAnswer - max($0.waitingSince, since) > most }
    }

    // MARK: State

    /// The number of calls that wait or are with a worker; nil while no worker accepts calls.
    var load: Int? {
        state.withLock { state in
            guard state.serving != nil, state.refusal == nil else { return nil }
            return state.waiting.count + state.heldCount
        }
    }

    /// The serving worker's description of its HSM token; nil while no worker accepts calls.
    var servedHSMToken: HSMTokenDescription? {
        state.withLock { state in state.serving != nil && state.refusal == nil ? state.hsmToken : nil }
    }

    /// The number of bytes of secrets that the workers could not lock in memory, by their last reports.
    var unlockedSecrets: Int {
        state.withLock { state in state.workers.values.reduce(0) { $0 + Int($1.unlockedSecrets) } }
    }

    /// The number of calls that wait for a worker.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// True if no call waits or is with a worker.
    var isIdle: Bool { state.withLock { $0.waiting.isEmpty && $0.heldCount == 0 } }
}
