import FairShares
import NIOCore
package import Telemetry
package import WorkerProtocol

/// One worker and its calls, with the time at which a session started each call.
///
/// The worker processes calls in the order in which they were sent, in the configured number of sessions. It does not
/// report when a session starts a call. The daemon derives that time from the order and from the answers, since a call's
/// time limit begins when a session starts it. A call that waits in the worker does not use the HSM token.
struct WorkerCalls {
    private struct Held {
        var call: PendingCall
        let sentAt: ContinuousClock.Instant
        /// The call's position among all calls that were sent to any worker.
        let place: UInt64
        /// The time at which a session started the call, as the daemon derives it; nil before.
        var begun: ContinuousClock.Instant?
        /// The time at which the daemon noticed that the worker had answered a later call. Since then a session certainly
        /// processes this call.
        var overtakenSince: ContinuousClock.Instant?
    }

    let worker: ConnectedWorker
    private let sessions: Int
    private let metrics: CallMetrics?
    private var held: [UInt64: Held] = [:]
    /// The number of calls that sessions have started. ``queued`` has the other calls in the order of sending.
    private var running = 0
    private var queued = CircularBuffer<UInt64>()
    private var lastPlaceAnswered: UInt64 = 0

    private(set) var lastAnswer: ContinuousClock.Instant?
    /// The number of answers since the worker began to serve.
    private(set) var answersServing = 0
    /// The number of bytes of secrets that the worker could not lock in memory, by its last report.
    private(set) var unlockedSecrets: UInt32 = 0
    /// True once the worker has begun to serve. It stays true when a successor has taken over and this worker finishes its
    /// calls.
    var hasServed = false
    /// True if the worker ends because its HSM token failed, so that none of its calls is the cause.
    var hsmTokenHasFailed = false

    /// - Parameter sessions: the number of calls that the worker processes at a time.
    init(_ worker: ConnectedWorker, sessions: Int, metrics: CallMetrics?) {
        self.worker = worker
        self.sessions = sessions
        self.metrics = metrics
    }

    var count: Int { held.count }

    /// Sends a call to the worker.
    mutating func send(_ call: PendingCall, place: UInt64, at now: ContinuousClock.Instant) {
        held[call.identifier] = Held(call: call, sentAt: now, place: place)
        if running < sessions {
            begin(call.identifier, at: now)
        } else {
            queued.append(call.identifier)
        }
        worker.send(call.frame)
    }

    private mutating func begin(_ identifier: UInt64, at now: ContinuousClock.Instant) {
        guard let call = held[identifier]?.call else { return }
        held[identifier]?.begun = now
        running += 1
        metrics?.waits.observe(now - call.waitingSince)
    }

    /// Removes the call that an answer belongs to, and marks the next calls in the order as started.
    /// - Returns: the call, and the seconds from its start to the answer; nil if the worker has no such call.
    mutating func take(
        _ answer: WorkerAnswer, for identifier: UInt64, at now: ContinuousClock.Instant
    ) -> (call: PendingCall, seconds: Double)? {
        guard let answered = held.removeValue(forKey: identifier) else { return nil }
        if answered.begun != nil { running -= 1 }
        while running < sessions, let next = queued.popFirst() { begin(next, at: now) }
        lastAnswer = now
        lastPlaceAnswered = max(answered.place, lastPlaceAnswered)
        switch answer {
        case .plaintext(_, _, let unlocked): unlockedSecrets = unlocked
        case .opened(let description): unlockedSecrets = description.unlockedSecrets
        default: break
        }
        return (answered.call, (now - (answered.begun ?? answered.sentAt)).inSeconds)
    }

    /// Counts an answer that the worker gave while it served.
    /// - Returns: true if this answer makes the worker due for replacement.
    mutating func countAnswer(recycleAfter: Int) -> Bool {
        answersServing += 1
        return answersServing == recycleAfter
    }

    /// Returns the calls that were unanswered when the worker ended, in the order in which they were made.
    consuming func lost() -> [PendingCall] {
        held.values.map(\.call).sorted { $0.identifier < $1.identifier }
    }

    /// Fails the calls that meet a condition, although the worker is still processing them.
    /// - Returns: the number of calls that failed.
    @discardableResult
    mutating func abandon(
        _ failure: WorkerFailure, _ deferred: inout DeferredActions,
        where condition: (PendingCall) -> Bool = { _ in true }
    ) -> Int {
        var answered = 0
        for (identifier, entry) in held where !entry.call.isAbandoned && condition(entry.call) {
            entry.call.finish(failure, stage: .worker, &deferred)
            held[identifier]?.call.isAbandoned = true
            answered += 1
        }
        return answered
    }

    /// Returns true if a session has worked on a call for longer than the call's limit.
    mutating func hangs(at now: ContinuousClock.Instant, callTimeout: Duration) -> Bool {
        var hangs = false
        for (identifier, entry) in held {
            var overtakenSince = entry.overtakenSince
            if overtakenSince == nil, entry.place < lastPlaceAnswered {
                overtakenSince = now
                held[identifier]?.overtakenSince = now
            }
            // From `overtakenSince` on, a session certainly works on the call. `begun` is an estimate: it assumes that
            // the worker uses all configured sessions. A worker with fewer sessions may start the call later. Without
            // `overtakenSince`, the call's time is therefore counted from `begun` or from the last answer, whichever is
            // later.
            let since = overtakenSince ?? entry.begun.map { begun in lastAnswer.map { max($0, begun) } ?? begun }
            if let since, now - since > entry.call.operation.limit(callTimeout: callTimeout) {
                hangs = true
                held[identifier]?.call.hasHung = true
            }
        }
        return hangs
    }
}

/// The metrics of the calls to one HSM token.
package struct CallMetrics: Sendable {
    let hsmToken: String
    /// The seconds from the submission of a call until a session started it: `paytokend_hsm_wait_seconds`.
    let waits: Histogram<0>
    /// The seconds from when a session started a call to its answer: `paytokend_hsm_call_seconds`, by HSM token and
    /// operation.
    let calls: Histogram<2>

    package init(hsmToken: String, waits: Histogram<0>, calls: Histogram<2>) {
        (self.hsmToken, self.waits, self.calls) = (hsmToken, waits, calls)
    }

    func called(_ operation: WorkerOperation, _ seconds: Double) {
        calls.observe(seconds, [hsmToken, operation.name])
    }
}

/// The average duration of a decryption, and the number of calls that a worker may have accordingly.
///
/// A call that was sent to a worker cannot move to another HSM token, and no other caller's call can overtake it. The
/// worker therefore gets few calls in addition to those that its sessions process: only enough to keep them busy until the
/// next call arrives. These are a few for an HSM token that takes 150 µs, and one for an HSM token that takes a second.
struct CallPace {
    /// The assumed seconds from an answer until a session receives the next call, on a busy machine.
    private static let roundTrip = 0.005
    /// The weight of one call in the exponential moving average.
    private static let weight = 0.125

    /// The average duration in seconds; nil before the first decryption.
    private var average: Double?

    /// Adds a duration to the average.
    /// - Parameter seconds: the time from when a session started a decryption until the worker answered it.
    mutating func took(_ seconds: Double) {
        let seconds = max(seconds, 0)
        average = average.map { $0 + (seconds - $0) * Self.weight } ?? seconds
    }

    /// Returns the number of calls that a worker may have at a time.
    /// - Parameters:
    ///   - sessions: the number of calls that the worker processes at a time.
    ///   - most: the maximum, which a fast HSM token reaches.
    func window(sessions: Int, atMost most: Int) -> Int {
        guard sessions < most else { return most }
        guard let average else { return sessions + 1 }
        // A minimum of the average avoids a division by zero.
        let wanted = (Double(sessions) * Self.roundTrip / max(average, 1e-9)).rounded(.up)
        return sessions + Int(min(max(wanted, 1), Double(most - sessions)))
    }
}

typealias CallResult = Result<WorkerAnswer, CallFailure>

/// One attempt at a call, from its creation to its answer.
package struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// True if the call opens the HSM token. A worker gets this call before it serves.
    let isOpening: Bool
    /// The encoded request: a whole frame.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    let waitingSince: ContinuousClock.Instant
    let terms: CallTerms
    /// True if the caller has already received a failure although the worker is still processing the call.
    var isAbandoned = false
    /// True if the call exceeded its limit, so that the worker is ended because of it.
    var hasHung = false

    /// True if two workers may have ended because of the call's content. The daemon's own requests are the same each time,
    /// and a slow HSM token must not stop them for minutes.
    var mayBeAtFault: Bool { operation.hasCallersInput }

    func finish(
        _ failure: WorkerFailure, stage: CallFailure.Stage = .queue, _ deferred: inout DeferredActions
    ) {
        var failure = failure
        failure.isUnsent = stage == .queue && !terms.isRepetition
        finish(.failure(CallFailure(failure: failure, stage: stage)), &deferred)
    }

    func finish(_ result: CallResult, _ deferred: inout DeferredActions) {
        guard !isAbandoned else { return }
        deferred.append { [continuation] in continuation.resume(returning: result) }
    }

    func isPastDeadline(at now: ContinuousClock.Instant) -> Bool {
        terms.deadline.map { $0 < now } ?? false
    }

    static let deadlineExceeded = WorkerFailure(
        .deadlineExceeded, "The call was not answered within its deadline, including its repetition.")

    /// The failure with which the call ends if its worker ends first.
    var failureAtEnd: WorkerFailure {
        if hasHung, operation.isOptional {
            return WorkerFailure(
                .deadlineExceeded,
                "The HSM token's library did not return from \(operation.name), so its worker was ended.")
        }
        return WorkerFailure(
            .hsmTokenUnavailable,
            operation.isRepeatable || isOpening
                ? "The worker ended during the call."
                : "The worker ended during the call: list the keys to see whether it was done.")
    }

    package static let abandonedByCaller = WorkerFailure(
        .deadlineExceeded, "The caller closed its connection before the HSM token received its call.", isUnsent: true)
}

/// Actions that run after a ``CallQueue`` has released its lock. They resume callers and close workers, which may call the
/// queue again on the same thread and would deadlock otherwise.
typealias DeferredActions = [@Sendable () -> Void]

/// The calls that wait for a worker. Callers are served round robin (``FairQueue``).
struct WaitingCalls {
    private var firstAttempts = FairQueue<String?, PendingCall>()
    /// Second attempts, which are served before all first attempts.
    private var repetitions = CircularBuffer<PendingCall>()
    /// Second attempts that run alone. They are served before all other calls, one at a time.
    private var alone = CircularBuffer<PendingCall>()

    let capacity: Int

    /// - Parameter capacity: the maximum number of waiting calls of all callers; a single caller gets half of it.
    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { firstAttempts.count + repetitions.count + alone.count }

    var isEmpty: Bool { count == 0 }

    /// True if the next call runs alone.
    var nextRunsAlone: Bool { !alone.isEmpty }

    /// Returns true if one more call of this caller may wait: the caller has fewer waiting calls than there are free
    /// places. A caller at its limit therefore leaves places for other callers, however many they are. Second attempts are
    /// always admitted, since there are at most as many as calls with workers.
    func admits(_ terms: CallTerms) -> Bool {
        terms.isRepetition || firstAttempts.count(of: terms.requester.caller) < capacity - (count - alone.count)
    }

    mutating func append(_ call: PendingCall) {
        if call.terms.runsAlone {
            alone.append(call)
        } else if call.terms.isRepetition {
            repetitions.append(call)
        } else {
            firstAttempts.append(call, of: call.terms.requester.caller, named: call.terms.requester.client)
        }
    }

    /// Removes and returns the next call: one that runs alone, else a second attempt, else a first attempt of the caller
    /// whose turn it is. Calls whose caller has closed its connection fail instead.
    mutating func popFirst(_ deferred: inout DeferredActions) -> PendingCall? {
        while let call = alone.popFirst() ?? repetitions.popFirst() ?? firstAttempts.popFirst() {
            guard call.terms.requester.hasLeft() else { return call }
            call.finish(PendingCall.abandonedByCaller, &deferred)
        }
        return nil
    }

    /// Removes the calls that meet a condition, and fails them.
    mutating func fail(
        _ failure: WorkerFailure, _ deferred: inout DeferredActions,
        where condition: (PendingCall) -> Bool = { _ in true }
    ) {
        for call in alone where condition(call) { call.finish(failure, &deferred) }
        alone.removeAll(where: condition)
        for call in repetitions where condition(call) { call.finish(failure, &deferred) }
        repetitions.removeAll(where: condition)
        for call in firstAttempts.removeAll(where: condition) { call.finish(failure, &deferred) }
    }
}
