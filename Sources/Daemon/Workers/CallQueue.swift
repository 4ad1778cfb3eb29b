import NIOCore
import Synchronization
import WorkerProtocol

/// The calls of one token, waiting or with a worker.
///
/// A bounded number waits here; the workers hold a small window, so that the time from handing a call over to its
/// answer is the token's and not a queue's, and a call that exceeds its limit means a worker that hangs.
///
/// When a worker ends, the calls it had are suspects: they are made once more, one at a time and before all others.
/// So a second death names the input that causes it, and only that one is refused for a while.
final class CallQueue: Sendable {
    struct Limits: Sendable {
        /// Calls that one worker holds at a time.
        var window: Int
        /// Calls that wait here; one more is `overloaded`.
        var waiting: Int
        var callTimeout: Duration
        var recycleAfter: Int
        /// Calls that a worker works on at a time, in the order in which it got them; the others of the window wait
        /// with it, which is no time of the token's.
        var sessions = Int.max
    }

    private struct Lane {
        let worker: WorkerLane
        var outstanding = 0
        /// How many of them are being worked on, as far as their order tells, and the calls behind those.
        var running = 0
        var behind = CircularBuffer<UInt64>()
        var answered = 0
        /// It serves, or has served and ends after its last call.
        var hasServed = false
        /// It ends because its token failed: no call is to blame.
        var hasFailedToken = false
    }

    private struct State {
        var waiting = CircularBuffer<PendingCall>()
        var suspects = CircularBuffer<PendingCall>()
        var withWorkers: [UInt64: PendingCall] = [:]
        var lanes: [UInt64: Lane] = [:]
        /// A suspect is with a worker: nothing else is handed over meanwhile.
        var isTryingSuspect = false
        /// The lane that new calls go to.
        var serving: UInt64?
        /// Why calls are not even queued.
        var refusal: WorkerFailure? = nil
        var nextIdentifier: UInt64 = 1
    }

    private let limits: Limits
    private let events: WorkerEvents
    private let quarantine: QuarantinedInputs
    private let recycleDue: @Sendable (UInt64) -> Void
    private let state = Mutex(State())

    init(
        limits: Limits, events: WorkerEvents, quarantine: QuarantinedInputs = QuarantinedInputs(),
        recycleDue: @escaping @Sendable (UInt64) -> Void
    ) {
        self.limits = limits
        self.events = events
        self.quarantine = quarantine
        self.recycleDue = recycleDue
    }

    // MARK: Calls

    /// Makes a call at the serving worker: after those that came before, a repetition before them.
    func submit(_ request: WorkerRequest, terms: CallTerms = CallTerms()) async -> CallResult {
        await withCheckedContinuation { continuation in
            state.withLock { state in
                guard let call = makeCall(request, terms, continuation, &state) else { return }
                if let refusal = state.refusal {
                    call.finish(refusal)
                } else if quarantine.contains(call.frame, now: .now) {
                    call.finish(WorkerFailure(.inputQuarantined, "Two workers ended while they had this input."))
                } else if terms.isRepetition {
                    requeue(call, &state)
                    dispatch(&state)
                } else if state.waiting.count >= limits.waiting {
                    call.finish(WorkerFailure(.overloaded, "\(limits.waiting) calls wait for the token already."))
                } else {
                    state.waiting.append(call)
                    dispatch(&state)
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
                hand(call, to: lane, &state)
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

    private func dispatch(_ state: inout State) {
        guard !state.isTryingSuspect, let lane = state.serving, let outstanding = state.lanes[lane]?.outstanding
        else { return }
        if !state.suspects.isEmpty {
            if outstanding == 0 {
                state.isTryingSuspect = true
                hand(state.suspects.removeFirst(), to: lane, &state)
            }
            return
        }
        var room = limits.window - outstanding
        while room > 0, let call = state.waiting.popFirst() {
            hand(call, to: lane, &state)
            room -= 1
        }
    }

    private func hand(_ call: PendingCall, to lane: UInt64, _ state: inout State) {
        var call = call
        let now = ContinuousClock.now
        call.sent = (now, lane)
        call.begun = nil
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
    func received(_ answer: WorkerAnswer, for identifier: UInt64, from lane: UInt64) -> Bool {
        state.withLock { state in
            guard let call = state.withWorkers[identifier], let sent = call.sent, sent.lane == lane else {
                return false
            }
            let now = ContinuousClock.now
            remove(call, from: lane, &state)
            end(call, at: now, lane, &state)
            events.called(call.operation, (now - (call.begun ?? sent.at)).inSeconds)
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
            dispatch(&state)
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
        if call.terms.isSuspect { state.isTryingSuspect = false }
    }

    private func requeue(_ call: PendingCall, _ state: inout State) {
        if let refusal = state.refusal {
            call.finish(refusal)
        } else if call.terms.isSuspect {
            state.suspects.append(call)
        } else {
            state.waiting.prepend(call)
        }
    }

    // MARK: Workers

    /// Makes a worker known, for calls made at it alone.
    func add(_ worker: WorkerLane) {
        state.withLock { $0.lanes[worker.identifier] = Lane(worker: worker) }
    }

    /// New calls go to this worker from now on. The one before keeps the calls it has and ends after the last.
    /// - Returns: false when it has ended meanwhile.
    func serve(with lane: UInt64) -> Bool {
        state.withLock { state in
            guard state.lanes[lane] != nil else { return false }
            let former = state.serving
            state.lanes[lane]?.hasServed = true
            state.serving = lane
            state.refusal = nil
            if let former, let entry = state.lanes[former], entry.outstanding == 0 { entry.worker.close() }
            dispatch(&state)
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
                    call.terms.isSuspect = !isBlameless
                    call.waitingSince = .now
                    requeue(call, &state)
                    continue
                }
                if call.terms.isSuspect, !isBlameless { quarantine.insert(call.frame, now: .now) }
                let message =
                    call.operation.isRepeatable || call.operation == .open
                    ? "The worker ended while it had the call."
                    : "The worker ended while it had the call: list the keys to see whether it was done."
                call.finish(WorkerFailure(.tokenUnavailable, message), reach: isBlameless ? .worker : .endedWorker)
            }
            if state.serving == nil { handBack(&state) }
            dispatch(&state)
            return (entry?.answered ?? 0) > 0
        }
    }

    /// Calls that another token can take do not wait for this one's next worker.
    private func handBack(_ state: inout State) {
        let failure = WorkerFailure(.tokenUnavailable, "The worker ended before it had the call.")
        for call in state.suspects + state.waiting where call.terms.comesBack { call.finish(failure) }
        state.suspects.removeAll { $0.terms.comesBack }
        state.waiting.removeAll { $0.terms.comesBack }
    }

    /// No worker is to be had soon: what waits fails, and so does what comes, until a worker serves again.
    func refuse(_ failure: WorkerFailure) {
        state.withLock { state in
            state.refusal = failure
            for call in state.suspects { call.finish(failure) }
            for call in state.waiting { call.finish(failure) }
            state.suspects.removeAll()
            state.waiting.removeAll()
        }
    }

    /// Lets no call be unanswered for longer than its limit: fails what waited too long, and ends workers that hang.
    func expire(now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            var hanging: Set<UInt64> = []
            for (identifier, call) in state.withWorkers {
                guard let sent = call.sent else { continue }
                if call.isPastDeadline(at: now) {
                    call.finish(PendingCall.deadlineExceeded, reach: .worker)
                    state.withWorkers[identifier]?.isAbandoned = true
                }
                if now - sent.at > call.operation.limit(callTimeout: limits.callTimeout) { hanging.insert(sent.lane) }
            }
            for lane in hanging {
                withdraw(lane, &state)
                state.lanes[lane]?.worker.kill(.timeout)
            }
            let oldest = now - limits.callTimeout
            let late =
                state.serving == nil
                ? WorkerFailure(.tokenUnavailable, "No worker has opened the token within call_timeout.")
                : WorkerFailure(.overloaded, "The call waited for the token for longer than call_timeout.")
            // Suspects wait for each other and for a worker's start: they are few, and only their deadline ends that.
            for call in state.suspects + state.waiting where call.isPastDeadline(at: now) {
                call.finish(PendingCall.deadlineExceeded)
            }
            state.suspects.removeAll { $0.isPastDeadline(at: now) }
            state.waiting.removeAll { $0.isPastDeadline(at: now) }
            while let call = state.waiting.first, call.waitingSince < oldest {
                state.waiting.removeFirst()
                call.finish(late)
            }
        }
    }

    /// How many calls wait or are with a worker; nil while no worker serves.
    var load: Int? {
        state.withLock { state in
            guard state.serving != nil, state.refusal == nil else { return nil }
            return state.waiting.count + state.suspects.count + state.withWorkers.count
        }
    }

    /// Whether no call waits or is with a worker.
    var isIdle: Bool {
        state.withLock { $0.waiting.isEmpty && $0.suspects.isEmpty && $0.withWorkers.isEmpty }
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
