import FairShares
import NIOCore
import Telemetry
package import WorkerProtocol

/// One worker and its calls: which of them its sessions process, and since when.
///
/// The worker processes calls in the order in which they were sent, with the configured number of sessions. It does not
/// report when a session starts a call. That is derived here from the order of sending and from the answers, since a
/// call's limit counts from then. A call that waits in the worker costs the HSM token no time.
struct WorkerCalls {
    private struct Held {
        var call: PendingCall
        let sentAt: ContinuousClock.Instant
        /// The position in the order of all sent calls.
        let place: UInt64
        /// The time at which a session started the call, derived from the number of sessions.
        var begun: ContinuousClock.Instant?
        /// The time since which a session certainly has the call: the worker has answered a call that was sent later.
        var overtakenSince: ContinuousClock.Instant?
    }

    let worker: ConnectedWorker
    private let sessions: Int
    private let waited: @Sendable (Double) -> Void
    private var held: [UInt64: Held] = [:]
    /// The number of started calls, and the other calls in the order of sending.
    private var running = 0
    private var behind = CircularBuffer<UInt64>()
    private var lastPlaceAnswered: UInt64 = 0

    private(set) var lastAnswer: ContinuousClock.Instant?
    /// The number of answers since the worker began to serve.
    private(set) var answersServing = 0
    /// Bytes of secrets that the worker could not lock in memory, by its last report.
    private(set) var unlockedSecrets: UInt32 = 0
    /// True if the worker serves, or has served and ends after its last call.
    var hasServed = false
    /// True if the worker ends because its HSM token failed, not because of a call.
    var hsmTokenHasFailed = false

    /// - Parameters:
    ///   - sessions: the number of calls that the worker processes at a time.
    ///   - waited: receives the seconds that a call has waited when a session starts it.
    init(_ worker: ConnectedWorker, sessions: Int, waited: @escaping @Sendable (Double) -> Void) {
        self.worker = worker
        self.sessions = sessions
        self.waited = waited
    }

    var count: Int { held.count }

    /// Sends a call.
    mutating func send(_ call: PendingCall, place: UInt64, at now: ContinuousClock.Instant) {
        held[call.identifier] = Held(call: call, sentAt: now, place: place)
        if running < sessions {
            begin(call.identifier, at: now)
        } else {
            behind.append(call.identifier)
        }
        worker.send(call.frame)
    }

    private mutating func begin(_ identifier: UInt64, at now: ContinuousClock.Instant) {
        guard let call = held[identifier]?.call else { return }
        held[identifier]?.begun = now
        running += 1
        waited((now - call.waitingSince).inSeconds)
    }

    /// Processes an answer, and counts the next call in the order as started.
    /// - Returns: the call, and the seconds from its start to the answer; nil if the worker has no such call.
    mutating func take(
        _ answer: WorkerAnswer, for identifier: UInt64, at now: ContinuousClock.Instant
    ) -> (call: PendingCall, seconds: Double)? {
        guard let answered = held.removeValue(forKey: identifier) else { return nil }
        if answered.begun != nil { running -= 1 }
        while running < sessions, let next = behind.popFirst() { begin(next, at: now) }
        lastAnswer = now
        lastPlaceAnswered = max(answered.place, lastPlaceAnswered)
        switch answer {
        case .plaintext(_, _, let unlocked): unlockedSecrets = unlocked
        case .opened(let description): unlockedSecrets = description.unlockedSecrets
        default: break
        }
        return (answered.call, (now - (answered.begun ?? answered.sentAt)).inSeconds)
    }

    /// Counts an answer of the serving worker.
    /// - Returns: true if this answer makes the worker due for replacement.
    mutating func countAnswer(recycleAfter: Int) -> Bool {
        answersServing += 1
        return answersServing == recycleAfter
    }

    /// Returns the calls that the worker had when it ended, in their order.
    consuming func lost() -> [PendingCall] {
        held.values.map(\.call).sorted { $0.identifier < $1.identifier }
    }

    /// Answers the calls that meet a condition with a failure, although the worker is still processing them.
    /// - Returns: the number of calls answered now.
    @discardableResult
    mutating func abandon(
        _ failure: WorkerFailure, _ deferred: inout DeferredActions,
        where condition: (PendingCall) -> Bool = { _ in true }
    ) -> Int {
        var answered = 0
        for (identifier, entry) in held where !entry.call.isAbandoned && condition(entry.call) {
            entry.call.finish(failure, reach: .worker, &deferred)
            held[identifier]?.call.isAbandoned = true
            answered += 1
        }
        return answered
    }

    /// Returns true if a session has worked on a call for longer than its limit, so that the worker hangs.
    mutating func hangs(at now: ContinuousClock.Instant, callTimeout: Duration) -> Bool {
        var hangs = false
        for (identifier, entry) in held {
            var overtakenSince = entry.overtakenSince
            if overtakenSince == nil, entry.place < lastPlaceAnswered {
                overtakenSince = now
                held[identifier]?.overtakenSince = now
            }
            // An overtaken call is certainly with a session. A call that has started only by the daemon's count may
            // still wait in the worker, which may have fewer sessions at the moment. While answers arrive, its time has
            // not begun.
            let since = overtakenSince ?? entry.begun.map { begun in lastAnswer.map { max($0, begun) } ?? begun }
            if let since, now - since > entry.call.operation.limit(callTimeout: callTimeout) {
                hangs = true
                held[identifier]?.call.hasHung = true
            }
        }
        return hangs
    }
}

/// The present duration of a decryption, and the number of calls that a worker gets accordingly.
///
/// A call that a worker has cannot move to another HSM token, and no other caller's call can overtake it. Beyond the
/// calls that the sessions process, the worker needs only enough to keep them busy until the next call arrives: a few
/// for an HSM token that takes 150 µs, one for an HSM token that takes a second.
struct CallPace {
    /// The seconds from an answer to the next call's arrival in a session, on a busy machine.
    private static let roundTrip = 0.005
    /// The weight of one call in the average.
    private static let weight = 0.125

    /// The average in seconds; nil before the first call.
    private var average: Double?

    /// - Parameter seconds: the time from when a session started a decryption until the worker answered it.
    mutating func took(_ seconds: Double) {
        let seconds = max(seconds, 0)
        average = average.map { $0 + (seconds - $0) * Self.weight } ?? seconds
    }

    /// Returns the number of calls that a worker may have.
    /// - Parameters:
    ///   - sessions: the number of calls that the worker processes at a time.
    ///   - most: the upper limit, however fast the HSM token is.
    func window(sessions: Int, atMost most: Int) -> Int {
        guard sessions < most else { return most }
        guard let average else { return sessions + 1 }
        // The lower limit avoids a division by zero.
        let wanted = (Double(sessions) * Self.roundTrip / max(average, 1e-9)).rounded(.up)
        return sessions + Int(min(max(wanted, 1), Double(most - sessions)))
    }
}

typealias CallResult = Result<WorkerAnswer, CallFailure>

/// One attempt at a call on its way through a ``CallQueue``.
package struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// True if the call opens the HSM token, before the worker serves.
    let isOpening: Bool
    /// The encoded request, a whole frame.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    let waitingSince: ContinuousClock.Instant
    let terms: CallTerms
    /// True if the caller has already been answered while the worker is still processing the call.
    var isAbandoned = false
    /// True if the worker is ended because of this call.
    var hasHung = false

    func finish(
        _ failure: WorkerFailure, reach: CallFailure.Reach = .queue, _ deferred: inout DeferredActions
    ) {
        var failure = failure
        failure.isUnsent = reach == .queue && !terms.isRepetition
        finish(.failure(CallFailure(failure: failure, reach: reach)), &deferred)
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

    /// The call's failure when its worker has ended.
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

/// Actions that run once a ``CallQueue``'s lock is free: a resumed caller and an ended worker may call the queue at
/// once, on the same thread.
typealias DeferredActions = [@Sendable () -> Void]

/// Calls that wait for a worker. Callers are served round robin (``FairQueue``).
struct WaitingCalls {
    private var firstAttempts = FairQueue<String?, PendingCall>()
    /// Second attempts, served before all first ones.
    private var repetitions = CircularBuffer<PendingCall>()
    /// Second attempts that run alone, served before all others, one at a time.
    private var alone = CircularBuffer<PendingCall>()

    let capacity: Int

    /// - Parameter capacity: the number of calls of all callers together; a single caller gets half of it.
    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { firstAttempts.count + repetitions.count + alone.count }

    var isEmpty: Bool { count == 0 }

    /// True if the next call runs alone.
    var nextRunsAlone: Bool { !alone.isEmpty }

    /// Returns true if one more call of this caller may wait: the caller has fewer calls than there are free
    /// places. A caller that has filled its share leaves places for every other, however many there are. Second
    /// attempts are limited by the number of calls with workers, and so always admitted.
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

    /// Removes and returns the next call: one that runs alone, else a second attempt, else one of the next caller in
    /// the round. Calls whose caller has left are answered with a failure instead.
    mutating func popFirst(_ deferred: inout DeferredActions) -> PendingCall? {
        while let call = alone.popFirst() ?? repetitions.popFirst() ?? firstAttempts.popFirst() {
            guard call.terms.requester.hasLeft() else { return call }
            call.finish(PendingCall.abandonedByCaller, &deferred)
        }
        return nil
    }

    /// Removes calls and answers them with a failure.
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
