import NIOCore
import Synchronization
import WorkerProtocol

/// The calls of one token, waiting or with a worker.
///
/// A bounded number waits here, and callers are served in turn. The workers hold as many calls as keep their sessions
/// busy (``CallPace``). A call's limit counts from when a session begins with it, as far as the order of sending and
/// the answers tell; a worker that exceeds it hangs.
///
/// When a worker ends, the calls it had are retriedAlone: they are made once more, one at a time and before all others.
/// So a second death names the input that causes it, and only that one is refused for a while.
final class CallQueue: Sendable {
    struct Limits: Sendable {
        /// The most calls that one worker holds at a time; a slow token's worker holds fewer.
        var window: Int
        /// Calls that wait here, of all callers; a caller alone gets half. One more is `overloaded`.
        var waiting: Int
        var callTimeout: Duration
        var recycleAfter: Int
        /// Calls that a worker works on at a time, in the order in which it got them; the others of the window wait
        /// with it, which is no time of the token's.
        var sessions = Int.max
    }

    private struct Lane {
        let worker: ConnectedWorker
        var outstanding = 0
        /// How many of them are being worked on, as far as their order tells, and the calls behind those.
        var running = 0
        var behind = CircularBuffer<UInt64>()
        var answered = 0
        var lastAnswer: ContinuousClock.Instant?
        /// The highest place in the order of sending of a call that it has answered: sessions take calls in that order,
        /// so they have begun with every call before it.
        var answeredPlace: UInt64 = 0
        /// Bytes of secrets that it could not lock in memory, as it last said.
        var unlockedSecrets: UInt32 = 0
        /// It serves, or has served and ends after its last call.
        var hasServed = false
        /// It ends because its token failed: no call is to blame.
        var hasFailedToken = false

        mutating func answered(_ answer: WorkerAnswer, place: UInt64, at now: ContinuousClock.Instant) {
            lastAnswer = now
            answeredPlace = max(place, answeredPlace)
            switch answer {
            case .plaintext(_, _, let unlocked): unlockedSecrets = unlocked
            case .opened(let description): unlockedSecrets = description.unlockedSecrets
            default: break
            }
        }
    }

    private struct State {
        var waiting: WaitingCalls
        var retriedAlone = CircularBuffer<PendingCall>()
        var withWorkers: [UInt64: PendingCall] = [:]
        var lanes: [UInt64: Lane] = [:]
        /// A suspect is with a worker: nothing else is handed over meanwhile.
        var isTryingAlone = false
        /// The lane that new calls go to, what its worker said of the token, and since when there is one.
        var serving: UInt64?
        var token: HSMTokenDescription?
        var servingSince = ContinuousClock.now
        /// Why calls are not even queued.
        var refusal: WorkerFailure? = nil
        /// No worker is to serve any more.
        var isOver = false
        var nextIdentifier: UInt64 = 1
        var nextPlace: UInt64 = 1
        var pace = CallPace()

        init(waiting: Int) {
            self.waiting = WaitingCalls(capacity: waiting)
        }
    }

    private let limits: Limits
    private let events: WorkerEvents
    private let refusedInputs: RefusedInputs
    private let recycleDue: @Sendable (UInt64) -> Void
    private let state: Mutex<State>

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

    // MARK: Calls

    /// Makes a call at the serving worker: after those of the same caller that came before, and in turn with other
    /// callers'. A repetition goes before them all.
    func submit(_ request: WorkerRequest, terms: CallTerms = CallTerms()) async -> CallResult {
        await withCheckedContinuation { continuation in
            state.withLock { state in
                guard let call = makeCall(request, terms, continuation, &state) else { return }
                if let refusal = state.refusal {
                    call.finish(refusal)
                } else if let seconds = refusedInputs.secondsLeft(of: call.frame, now: .now) {
                    call.finish(
                        WorkerFailure(
                            .inputRefused, "Two workers ended while they had this input.", retryAfter: seconds))
                } else if terms.isRepetition {
                    requeue(call, &state)
                    dispatch(&state, at: .now)
                } else if !state.waiting.admits(terms.caller) {
                    call.finish(
                        WorkerFailure(
                            .overloaded,
                            "\(state.waiting.count) calls wait for the token already, too many of them this caller's."))
                } else {
                    state.waiting.append(call)
                    dispatch(&state, at: .now)
                }
            }
        }
    }

    /// Makes a call at one worker, at once; for a worker that does not serve yet.
    func submit(_ request: WorkerRequest, to lane: UInt64) async -> CallResult {
        await withCheckedContinuation { continuation in
            state.withLock { state in
                // Not to be repeated elsewhere: it is about this very worker.
                let terms = CallTerms(isRepetition: true)
                guard let call = makeCall(request, terms, continuation, &state) else { return }
                guard state.lanes[lane] != nil else {
                    call.finish(WorkerFailure(.tokenUnavailable, "The worker ended."))
                    return
                }
                hand(call, to: lane, at: .now, &state)
            }
        }
    }

    /// - Returns: nil when the request does not fit its frame; the caller has been told.
    private func makeCall(
        _ request: WorkerRequest, _ terms: CallTerms, _ continuation: CheckedContinuation<CallResult, Never>,
        _ state: inout State
    ) -> PendingCall? {
        let identifier = state.nextIdentifier
        state.nextIdentifier += 1
        do throws(FrameError) {
            return PendingCall(
                identifier: identifier, operation: WorkerOperation(request),
                frame: try request.encoded(identifier: identifier), continuation: continuation, waitingSince: .now,
                terms: terms)
        } catch {
            let failure = WorkerFailure(.protocolViolation, "A field of the request is too long.")
            continuation.resume(returning: .failure(CallFailure(failure: failure, reach: .queue)))
            return nil
        }
    }

    private func dispatch(_ state: inout State, at now: ContinuousClock.Instant) {
        guard !state.isTryingAlone, let lane = state.serving, let outstanding = state.lanes[lane]?.outstanding
        else { return }
        if !state.retriedAlone.isEmpty {
            if outstanding == 0 {
                state.isTryingAlone = true
                hand(state.retriedAlone.removeFirst(), to: lane, at: now, &state)
            }
            return
        }
        var room = state.pace.window(sessions: limits.sessions, atMost: limits.window) - outstanding
        while room > 0, let call = state.waiting.popFirst() {
            hand(call, to: lane, at: now, &state)
            room -= 1
        }
    }

    private func hand(
        _ call: PendingCall, to lane: UInt64, at now: ContinuousClock.Instant, _ state: inout State
    ) {
        var call = call
        call.sent = (now, lane, state.nextPlace)
        state.nextPlace += 1
        call.begun = nil
        call.withSessionSince = nil
        state.withWorkers[call.identifier] = call
        state.lanes[lane]?.outstanding += 1
        if let running = state.lanes[lane]?.running, running < limits.sessions {
            begin(call.identifier, at: now, lane, &state)
        } else {
            state.lanes[lane]?.behind.append(call.identifier)
        }
        state.lanes[lane]?.worker.send(call.frame)
    }

    /// From now on it is the token that takes the time.
    private func begin(_ identifier: UInt64, at now: ContinuousClock.Instant, _ lane: UInt64, _ state: inout State) {
        guard let call = state.withWorkers[identifier] else { return }
        state.withWorkers[identifier]?.begun = now
        state.lanes[lane]?.running += 1
        events.waited((now - call.waitingSince).inSeconds)
    }

    /// Counts one off, and the next in the order on.
    private func end(_ call: PendingCall, at now: ContinuousClock.Instant, _ lane: UInt64, _ state: inout State) {
        if call.begun != nil { state.lanes[lane]?.running -= 1 }
        while state.lanes[lane]?.running ?? .max < limits.sessions, let next = state.lanes[lane]?.behind.popFirst() {
            begin(next, at: now, lane, &state)
        }
    }

    // MARK: Answers

    /// Takes a worker's answer.
    /// - Returns: Whether that worker had such a call. Where not, it is not to be trusted further.
    func received(
        _ answer: WorkerAnswer, for identifier: UInt64, from lane: UInt64, now: ContinuousClock.Instant = .now
    ) -> Bool {
        state.withLock { state in
            guard let call = state.withWorkers[identifier], let sent = call.sent, sent.lane == lane else {
                return false
            }
            remove(call, from: lane, &state)
            end(call, at: now, lane, &state)
            let took = (now - (call.begun ?? sent.at)).inSeconds
            events.called(call.operation, took)
            if case .plaintext = answer { state.pace.took(took) }
            state.lanes[lane]?.answered(answer, place: sent.place, at: now)
            if case .failed(let failure) = answer, failure.costsWorker, call.operation != .open {
                // The worker ends after such an answer. Nobody's input is to blame: the next worker gets the call.
                withdraw(lane, &state)
                state.lanes[lane]?.hasFailedToken = true
                if call.mayBeRepeatedHere {
                    var repetition = call
                    repetition.terms.isRepetition = true
                    repetition.waitingSince = .now
                    requeue(repetition, &state)
                } else {
                    call.finish(failure, reach: .worker)
                }
                state.lanes[lane]?.worker.kill(.token)
            } else if case .failed(let failure) = answer {
                // A worker that could not open its token ends by itself: that is no death to be counted.
                if call.operation == .open { state.lanes[lane]?.worker.close() }
                call.finish(failure, reach: .worker)
            } else {
                call.finish(answer)
            }
            countAnswer(of: lane, &state)
            dispatch(&state, at: now)
            return true
        }
    }

    private func countAnswer(of lane: UInt64, _ state: inout State) {
        guard let entry = state.lanes[lane] else { return }
        if state.serving == lane {
            state.lanes[lane]?.answered += 1
            if entry.answered + 1 == limits.recycleAfter { recycleDue(lane) }
        } else if entry.hasServed, entry.outstanding == 0 {
            entry.worker.close()
        }
    }

    private func remove(_ call: PendingCall, from lane: UInt64, _ state: inout State) {
        state.withWorkers[call.identifier] = nil
        state.lanes[lane]?.outstanding -= 1
        if call.terms.runsAlone { state.isTryingAlone = false }
    }

    private func requeue(_ call: PendingCall, _ state: inout State) {
        if let refusal = state.refusal {
            call.finish(refusal)
        } else if call.terms.runsAlone {
            state.retriedAlone.append(call)
        } else {
            state.waiting.prepend(call)
        }
    }

    // MARK: Workers

    /// Makes a worker known, for calls made at it alone.
    func add(_ worker: ConnectedWorker) {
        state.withLock { $0.lanes[worker.identifier] = Lane(worker: worker) }
    }

    /// New calls go to this worker from now on. The one before keeps the calls it has and ends after the last.
    /// - Returns: false when it has ended meanwhile.
    func serve(
        with lane: UInt64, opened token: HSMTokenDescription? = nil, now: ContinuousClock.Instant = .now
    ) -> Bool {
        state.withLock { state in
            guard state.lanes[lane] != nil, !state.isOver else { return false }
            let former = state.serving
            if former == nil { state.servingSince = now }
            state.lanes[lane]?.hasServed = true
            state.serving = lane
            state.token = token
            state.refusal = nil
            if let former, let entry = state.lanes[former], entry.outstanding == 0 { entry.worker.close() }
            dispatch(&state, at: now)
            return true
        }
    }

    private func withdraw(_ lane: UInt64, _ state: inout State) {
        if state.serving == lane { state.serving = nil }
    }

    /// A worker has ended: its repeatable calls are made once more, the others fail with an unknown outcome.
    /// - Returns: whether it had answered calls, and so was of use.
    @discardableResult
    func ended(_ lane: UInt64) -> Bool {
        state.withLock { state in
            withdraw(lane, &state)
            let entry = state.lanes.removeValue(forKey: lane)
            let isBlameless = entry?.hasFailedToken ?? false
            let lost = state.withWorkers.values.filter { $0.sent?.lane == lane }.sorted {
                $0.identifier < $1.identifier
            }
            for var call in lost {
                remove(call, from: lane, &state)
                if call.mayBeRepeatedHere {
                    call.terms.isRepetition = true
                    call.terms.runsAlone = !isBlameless
                    call.waitingSince = .now
                    requeue(call, &state)
                    continue
                }
                if call.terms.runsAlone, !isBlameless { refusedInputs.insert(call.frame, now: .now) }
                let message =
                    call.operation.isRepeatable || call.operation == .open
                    ? "The worker ended while it had the call."
                    : "The worker ended while it had the call: list the keys to see whether it was done."
                call.finish(WorkerFailure(.tokenUnavailable, message), reach: isBlameless ? .worker : .endedWorker)
            }
            if state.serving == nil { handBack(&state) }
            dispatch(&state, at: .now)
            return (entry?.answered ?? 0) > 0
        }
    }

    /// Calls that another token can take do not wait for this one's next worker.
    private func handBack(_ state: inout State) {
        let failure = WorkerFailure(.tokenUnavailable, "The worker ended before it had the call.")
        for call in state.retriedAlone where call.terms.comesBack { call.finish(failure) }
        state.retriedAlone.removeAll { $0.terms.comesBack }
        for call in state.waiting.removeAll(where: { $0.terms.comesBack }) { call.finish(failure) }
    }

    /// No worker is to be had soon: what waits fails, and so does what comes, until a worker serves again.
    func refuse(_ failure: WorkerFailure) {
        state.withLock { refuse(failure, &$0) }
    }

    private func refuse(_ failure: WorkerFailure, _ state: inout State) {
        // What was given up stays so, whatever else happens to the workers.
        if !state.isOver { state.refusal = failure }
        for call in state.retriedAlone { call.finish(failure) }
        state.retriedAlone.removeAll()
        for call in state.waiting.removeAll(where: { _ in true }) { call.finish(failure) }
    }

    /// Answers every call now, those with workers too, and every later one, for good: nobody waits any longer.
    /// - Returns: how many calls were with workers.
    @discardableResult
    func giveUp(_ failure: WorkerFailure) -> Int {
        state.withLock { state in
            refuse(failure, &state)
            state.isOver = true
            var answered = 0
            for (identifier, call) in state.withWorkers where !call.isAbandoned {
                call.finish(failure, reach: .worker)
                state.withWorkers[identifier]?.isAbandoned = true
                answered += 1
            }
            return answered
        }
    }

    /// Lets no call be unanswered for longer than its limit: fails what waited too long, and ends workers that hang.
    func expire(now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            endHangingWorkers(at: now, &state)
            // Suspects wait for each other and for a worker's start: they are few, and only their deadline ends that.
            for call in state.retriedAlone where call.isPastDeadline(at: now) {
                call.finish(PendingCall.deadlineExceeded)
            }
            state.retriedAlone.removeAll { $0.isPastDeadline(at: now) }
            for call in state.waiting.removeAll(where: { $0.isPastDeadline(at: now) }) {
                call.finish(PendingCall.deadlineExceeded)
            }
            failLateCalls(at: now, &state)
        }
    }

    private func endHangingWorkers(at now: ContinuousClock.Instant, _ state: inout State) {
        var hanging: Set<UInt64> = []
        for (identifier, call) in state.withWorkers {
            guard let sent = call.sent else { continue }
            if call.isPastDeadline(at: now) {
                call.finish(PendingCall.deadlineExceeded, reach: .worker)
                state.withWorkers[identifier]?.isAbandoned = true
            }
            guard let lane = state.lanes[sent.lane] else { continue }
            var withSessionSince = call.withSessionSince
            if withSessionSince == nil, sent.place < lane.answeredPlace {
                withSessionSince = now
                state.withWorkers[identifier]?.withSessionSince = now
            }
            // What has been overtaken is with a session. What has only begun by the daemon's count may still wait in
            // the worker, when that has fewer sessions at the moment: while answers come, its time has not begun.
            let since = withSessionSince ?? call.begun.map { begun in lane.lastAnswer.map { max($0, begun) } ?? begun }
            if let since, now - since > call.operation.limit(callTimeout: limits.callTimeout) {
                hanging.insert(sent.lane)
            }
        }
        for lane in hanging {
            withdraw(lane, &state)
            state.lanes[lane]?.worker.kill(.timeout)
        }
    }

    /// Beside a worker that answers, a call waits until there is no time left for it but its own `call_timeout`. The time
    /// in which there was no worker, or one that answered nothing and is about to be replaced, is not counted: then a
    /// call waits as long as a repetition may.
    private func failLateCalls(at now: ContinuousClock.Instant, _ state: inout State) {
        guard let serving = state.serving else {
            let patience = HSMTokenPool.deadline(callTimeout: limits.callTimeout)
            let failure = WorkerFailure(.tokenUnavailable, "No worker has opened the token in time.")
            for call in state.waiting.removeAll(where: { now - $0.waitingSince > patience }) { call.finish(failure) }
            return
        }
        guard let lastAnswer = state.lanes[serving]?.lastAnswer else { return }
        let failure = WorkerFailure(.overloaded, "The call waited too long for the token, which is slow or busy.")
        let (since, most) = (state.servingSince, HSMTokenPool.longestWait(callTimeout: limits.callTimeout))
        let late = state.waiting.removeAll { lastAnswer - max($0.waitingSince, since) > most }
        for call in late { call.finish(failure) }
    }

    /// How many calls wait or are with a worker; nil while no worker serves.
    var load: Int? {
        state.withLock { state in
            guard state.serving != nil, state.refusal == nil else { return nil }
            return state.waiting.count + state.retriedAlone.count + state.withWorkers.count
        }
    }

    /// What the worker that calls go to said of its token; nil while none serves.
    var servedToken: HSMTokenDescription? {
        state.withLock { state in state.serving != nil && state.refusal == nil ? state.token : nil }
    }

    /// Bytes of secrets that the workers could not lock in memory, as they last said.
    var unlockedSecrets: Int {
        state.withLock { state in state.lanes.values.reduce(0) { $0 + Int($1.unlockedSecrets) } }
    }

    /// How many calls wait for their turn, repetitions among them.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Whether no call waits or is with a worker.
    var isIdle: Bool {
        state.withLock { $0.waiting.isEmpty && $0.retriedAlone.isEmpty && $0.withWorkers.isEmpty }
    }

    /// Ends the input of a worker that is not to serve.
    func close(_ lane: UInt64) {
        state.withLock { $0.lanes[lane]?.worker.close() }
    }

    /// Ends every worker's input.
    func closeAll() {
        state.withLock { state in
            for lane in state.lanes.values { lane.worker.close() }
        }
    }
}

extension WorkerFailure {
    /// It is of no use any more: its token is gone, or has ended its login and refuses another. In the second case the
    /// next worker finds the refusal remembered and tries nothing, and the token is shown as what it is.
    fileprivate var costsWorker: Bool { kind == .tokenUnavailable || kind == .loginRefused }
}

extension PendingCall {
    /// Whether it is made again at this token's next worker when this one fails it.
    fileprivate var mayBeRepeatedHere: Bool {
        operation.isRepeatable && !terms.isRepetition && !terms.comesBack && !isAbandoned
    }
}

extension Duration {
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
