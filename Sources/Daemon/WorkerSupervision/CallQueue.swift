import NIOCore
import Synchronization
import WorkerProtocol

/// The calls of one HSM token: those that wait, and those that its workers hold.
///
/// ``HSMTokenPool`` and ``HSMToken`` make calls with ``call(_:terms:orAt:_:)``, which alone decides whether a call is made
/// twice; ``submit(_:terms:)`` is one attempt. ``WorkerSupervisor`` says which worker serves and when one has ended. What
/// holds for each attempt:
///
/// - Callers are served round robin, and a bounded number of calls waits (``WaitingCalls``).
/// - A worker gets as many calls as keep its sessions busy (``CallPace``), and is ended when a session works on one for
///   longer than the call's limit (``HeldCalls``).
/// - Every call is answered: by a worker, by a worker's end, at its deadline, or when it has waited too long.
/// - When a worker ends, each call that it held may be what ended it. So a second attempt runs alone, and an input with
///   which a second worker ends is refused for a while (``RefusedInputs``).
final class CallQueue: Sendable {
    struct Limits: Sendable {
        /// The most calls that one worker holds at a time; a slow token's worker holds fewer.
        var window: Int
        /// Calls that wait here, of all callers; a caller alone gets half. One more is `overloaded`.
        var waiting: Int
        var callTimeout: Duration
        /// After so many answers a worker is due for replacement.
        var recycleAfter: Int
        /// Calls that a worker works on at a time, in the order in which it got them. The others that it holds wait in it.
        var sessions = Int.max
    }

    private struct State {
        var waiting: WaitingCalls
        /// Every worker that has not ended, by its number.
        var workers: [UInt64: HeldCalls] = [:]
        /// A worker has a call that runs alone: nothing else is handed over meanwhile.
        var isRunningAlone = false
        /// The worker that new calls go to, what it said of the token, and since when there is one.
        var serving: UInt64?
        var hsmToken: HSMTokenDescription?
        var servingSince = ContinuousClock.now
        /// Why calls are not even queued.
        var refusal: WorkerFailure?
        /// The refusal is final: no worker is to serve any more.
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
    ///   - refusedInputs: Shared by all tokens.
    ///   - recycleDue: Gets the serving worker's number when it has answered as many calls as it may.
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

    /// Changes the state, and does what that defers once the lock is free.
    private func change<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        let (value, deferred) = state.withLock { state in
            defer { state.deferred = [] }
            return (body(&state), state.deferred)
        }
        for action in deferred { action() }
        return value
    }

    // MARK: Calls

    /// Makes one attempt at the serving worker: after the calls of the same caller that came before, and round robin with
    /// other callers'.
    func submit(_ request: WorkerRequest, terms: CallTerms = CallTerms()) async -> CallResult {
        await withCheckedContinuation { continuation in
            change { state in
                guard let call = makeCall(request, terms, continuation, &state) else { return }
                if let refusal = state.refusal {
                    call.finish(refusal, &state.deferred)
                } else if let seconds = refusedInputs.secondsLeft(of: call.frame, now: .now) {
                    call.finish(
                        WorkerFailure(
                            .inputRefused, "Two workers ended while they had this input.", retryAfter: seconds),
                        &state.deferred)
                } else if !state.waiting.admits(terms) {
                    call.finish(
                        WorkerFailure(
                            .overloaded,
                            "\(state.waiting.count) calls wait for the HSM token already, too many of them this caller's."
                        ), &state.deferred)
                } else {
                    state.waiting.append(call)
                    dispatch(&state, at: .now)
                }
            }
        }
    }

    /// Makes one attempt at one worker, at once; for a worker that does not serve yet.
    func submit(_ request: WorkerRequest, to worker: UInt64) async -> CallResult {
        await withCheckedContinuation { continuation in
            change { state in
                guard let call = makeCall(request, CallTerms(), continuation, &state) else { return }
                guard state.workers[worker] != nil else {
                    call.finish(WorkerFailure(.hsmTokenUnavailable, "The worker ended."), &state.deferred)
                    return
                }
                hand(call, to: worker, at: .now, &state)
            }
        }
    }

    /// - Returns: nil when the request does not fit its frame; the caller is answered.
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
                continuation.resume(returning: .failure(CallFailure(failure: failure, reach: .queue)))
            }
            return nil
        }
    }

    private func dispatch(_ state: inout State, at now: ContinuousClock.Instant) {
        guard !state.isRunningAlone, let worker = state.serving, let held = state.workers[worker]?.count else { return }
        if state.waiting.nextRunsAlone {
            guard held == 0, let call = state.waiting.popFirst(&state.deferred) else { return }
            state.isRunningAlone = true
            hand(call, to: worker, at: now, &state)
            return
        }
        var room = state.pace.window(sessions: limits.sessions, atMost: limits.window) - held
        while room > 0, let call = state.waiting.popFirst(&state.deferred) {
            hand(call, to: worker, at: now, &state)
            room -= 1
        }
    }

    private func hand(_ call: PendingCall, to worker: UInt64, at now: ContinuousClock.Instant, _ state: inout State) {
        state.workers[worker]?.send(call, place: state.nextPlace, at: now)
        state.nextPlace += 1
    }

    // MARK: Answers

    /// Takes a worker's answer.
    /// - Returns: Whether that worker had such a call. Where not, it is not to be trusted further.
    func received(
        _ answer: WorkerAnswer, for identifier: UInt64, from worker: UInt64, now: ContinuousClock.Instant = .now
    ) -> Bool {
        change { state in
            guard let answered = state.workers[worker]?.take(answer, for: identifier, at: now) else { return false }
            let call = answered.call
            if call.terms.runsAlone { state.isRunningAlone = false }
            events.called(call.operation, answered.seconds)
            if case .plaintext = answer { state.pace.took(answered.seconds) }
            if case .failed(let failure) = answer {
                if call.isOpening {
                    // A worker that could not open its token ends by itself, which is not counted as a death.
                    close(worker, &state)
                } else if failure.costsWorker {
                    withdraw(worker, &state)
                    state.workers[worker]?.hsmTokenHasFailed = true
                    kill(worker, .hsmToken, &state)
                }
                call.finish(failure, reach: .worker, &state.deferred)
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

    /// Lets a worker go that has served and has no call any more.
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

    /// Makes a worker known, for calls made at it alone.
    func add(_ worker: ConnectedWorker) {
        state.withLock {
            $0.workers[worker.number] = HeldCalls(worker, sessions: limits.sessions, waited: events.waited)
        }
    }

    /// New calls go to this worker from now on. The one before keeps the calls it has and ends after the last.
    /// - Returns: false when it has ended meanwhile.
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

    /// A worker has ended: the calls that it had fail, with an unknown outcome.
    /// - Returns: whether it had answered calls, and so was of use.
    @discardableResult
    func ended(_ worker: UInt64) -> Bool {
        change { state in
            withdraw(worker, &state)
            guard let entry = state.workers.removeValue(forKey: worker) else { return false }
            let (hsmTokenHasFailed, wasUseful) = (entry.hsmTokenHasFailed, entry.answersServing > 0)
            for call in entry.lost() {
                if call.terms.runsAlone {
                    state.isRunningAlone = false
                    if !hsmTokenHasFailed { refusedInputs.insert(call.frame, now: .now) }
                }
                let message =
                    call.operation.isRepeatable || call.isOpening
                    ? "The worker ended while it had the call."
                    : "The worker ended while it had the call: list the keys to see whether it was done."
                call.finish(
                    WorkerFailure(.hsmTokenUnavailable, message), reach: hsmTokenHasFailed ? .worker : .endedWorker,
                    &state.deferred)
            }
            if state.serving == nil {
                state.waiting.fail(
                    WorkerFailure(.hsmTokenUnavailable, "The worker ended before it had the call."), &state.deferred
                ) { !$0.terms.waitsForNextWorker }
            }
            dispatch(&state, at: .now)
            return wasUseful
        }
    }

    /// No worker is to be had soon: what waits fails, and so does what comes, until a worker serves again.
    func refuse(_ failure: WorkerFailure) {
        change { refuse(failure, &$0) }
    }

    private func refuse(_ failure: WorkerFailure, _ state: inout State) {
        // What was given up stays so, whatever else happens to the workers.
        if !state.isGivenUp { state.refusal = failure }
        state.waiting.fail(failure, &state.deferred)
    }

    /// Answers every call now, those with workers too, and every later one, for good.
    /// - Returns: how many calls were with workers.
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

    /// Ends the input of a worker that is not to serve.
    func close(_ worker: UInt64) {
        change { close(worker, &$0) }
    }

    /// Ends every worker's input.
    func closeAll() {
        change { state in
            for held in state.workers.values { state.deferred.append(held.worker.close) }
        }
    }

    // MARK: Time

    /// Lets no call be unanswered for longer than its limit: fails what waited too long, and ends workers that hang.
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

    /// While a worker answers, a call waits until only its own `call_timeout` is left of its time. The time
    /// in which there was no worker, or one that answered nothing and is about to be replaced, is not counted: then a
    /// call waits as long as a repetition may. Calls that run alone wait for each other and for a worker's start: they
    /// are few, and only their deadline ends that.
    private func failLateCalls(at now: ContinuousClock.Instant, _ state: inout State) {
        guard let serving = state.serving else {
            let patience = HSMTokenPool.deadline(callTimeout: limits.callTimeout)
            state.waiting.fail(
                WorkerFailure(.hsmTokenUnavailable, "No worker has opened the HSM token in time."), &state.deferred
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

    // MARK: What is known of it

    /// How many calls wait or are with a worker; nil while no worker serves.
    var load: Int? {
        state.withLock { state in
            guard state.serving != nil, state.refusal == nil else { return nil }
            return state.waiting.count + state.heldCount
        }
    }

    /// What the worker that calls go to said of its token; nil while none serves.
    var servedHSMToken: HSMTokenDescription? {
        state.withLock { state in state.serving != nil && state.refusal == nil ? state.hsmToken : nil }
    }

    /// Bytes of secrets that the workers could not lock in memory, as they last said.
    var unlockedSecrets: Int {
        state.withLock { state in state.workers.values.reduce(0) { $0 + Int($1.unlockedSecrets) } }
    }

    /// How many calls wait for a worker.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether no call waits or is with a worker.
    var isIdle: Bool { state.withLock { $0.waiting.isEmpty && $0.heldCount == 0 } }
}
