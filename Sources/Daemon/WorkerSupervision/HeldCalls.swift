import FairShares
import NIOCore
import Telemetry
package import WorkerProtocol

/// One worker, and the calls that it holds: which of them its sessions work on, and since when.
///
/// The worker takes calls in the order in which they were sent, with as many sessions as it was told to open. It does not
/// say when a session begins with a call: that is told here from the order of sending and from the answers, since a
/// call's limit counts from then. What waits in the worker behind its sessions costs the token no time.
struct HeldCalls {
    private struct Held {
        var call: PendingCall
        let sentAt: ContinuousClock.Instant
        /// In the order of all calls that were sent.
        let place: UInt64
        /// When a session began with it, going by the number of sessions.
        var begun: ContinuousClock.Instant?
        /// Since when it is certain that a session has it: the worker has answered a call that was sent after it.
        var overtakenSince: ContinuousClock.Instant?
    }

    let worker: ConnectedWorker
    private let sessions: Int
    private let waited: @Sendable (Double) -> Void
    private var held: [UInt64: Held] = [:]
    /// How many of them have begun, and the others in the order of sending.
    private var running = 0
    private var behind = CircularBuffer<UInt64>()
    private var lastPlaceAnswered: UInt64 = 0

    private(set) var lastAnswer: ContinuousClock.Instant?
    /// Answers since it serves.
    private(set) var answersServing = 0
    /// Bytes of secrets that it could not lock in memory, as it last said.
    private(set) var unlockedSecrets: UInt32 = 0
    /// It serves; or it has served, and ends after its last call.
    var hasServed = false
    /// It ends because its token failed: no call made it end.
    var hsmTokenHasFailed = false

    /// - Parameters:
    ///   - sessions: Calls that it works on at a time.
    ///   - waited: Gets the seconds that each call has waited when a session begins with it.
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

    /// Takes an answer, and counts the next call in the order as begun.
    /// - Returns: the call, and the seconds from its beginning to the answer; nil when the worker has no such call.
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
    /// - Returns: whether it is this one that makes the worker due for replacement.
    mutating func countAnswer(recycleAfter: Int) -> Bool {
        answersServing += 1
        return answersServing == recycleAfter
    }

    /// What the worker had when it ended, in the order of the calls.
    consuming func lost() -> [PendingCall] {
        held.values.map(\.call).sorted { $0.identifier < $1.identifier }
    }

    /// Answers the calls that fulfil a condition with a failure, although the worker is still working on them.
    /// - Returns: how many were answered now.
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

    /// Whether a session has worked on a call for longer than its limit: then the worker hangs.
    mutating func hangs(at now: ContinuousClock.Instant, callTimeout: Duration) -> Bool {
        var hangs = false
        for (identifier, entry) in held {
            var overtakenSince = entry.overtakenSince
            if overtakenSince == nil, entry.place < lastPlaceAnswered {
                overtakenSince = now
                held[identifier]?.overtakenSince = now
            }
            // A call that was overtaken is with a session for certain. One that has only begun by the daemon's count may
            // still wait in the worker, which may have fewer sessions at the moment: as long as answers come, its time
            // has not begun.
            let since = overtakenSince ?? entry.begun.map { begun in lastAnswer.map { max($0, begun) } ?? begun }
            if let since, now - since > entry.call.operation.limit(callTimeout: callTimeout) { hangs = true }
        }
        return hangs
    }
}

/// How long a decryption takes at the moment, and how many calls a worker is handed for that.
///
/// A call that a worker holds can be given to no other token and be overtaken by no other caller's. What is handed over
/// beyond the calls that the sessions work on only has to keep them busy until the next call reaches them: a few for a
/// token that takes 150 µs, one for a token that takes a second.
struct CallPace {
    /// From an answer to the next call's arrival in a session, on a busy machine, in seconds.
    private static let roundTrip = 0.005
    /// How much one call counts in the average.
    private static let weight = 0.125

    /// Seconds; nil before the first call.
    private var average: Double?

    /// - Parameter seconds: From a session's beginning with a decryption to its answer.
    mutating func took(_ seconds: Double) {
        let seconds = max(seconds, 0)
        average = average.map { $0 + (seconds - $0) * Self.weight } ?? seconds
    }

    /// Calls that a worker may hold.
    /// - Parameters:
    ///   - sessions: How many of them it works on at a time.
    ///   - most: Never more, however fast the token is.
    func window(sessions: Int, atMost most: Int) -> Int {
        guard sessions < most else { return most }
        guard let average else { return sessions + 1 }
        // More than fit are wanted from a token that takes no time at all.
        let wanted = (Double(sessions) * Self.roundTrip / max(average, 1e-9)).rounded(.up)
        return sessions + Int(min(max(wanted, 1), Double(most - sessions)))
    }
}

typealias CallResult = Result<WorkerAnswer, CallFailure>

/// One attempt at a call on its way through a ``CallQueue``.
package struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// It opens the token: its worker does not serve yet.
    let isOpening: Bool
    /// The whole frame.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    let waitingSince: ContinuousClock.Instant
    let terms: CallTerms
    /// Its caller has been answered already; the worker is still working on it.
    var isAbandoned = false

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
        .deadlineExceeded, "The call was not answered within its deadline, its repetition included.")

    package static let abandonedByCaller = WorkerFailure(
        .deadlineExceeded, "The caller closed its connection before the HSM token had its call.", isUnsent: true)
}

/// Actions that wait until a ``CallQueue``'s lock is free: a resumed caller and an ended worker may call the queue at once, on the
/// same thread.
typealias DeferredActions = [@Sendable () -> Void]

/// Calls that wait for a worker. Callers are served round robin (``FairQueue``).
struct WaitingCalls {
    private var firstAttempts = FairQueue<String?, PendingCall>()
    /// Second attempts: served before all first ones.
    private var repetitions = CircularBuffer<PendingCall>()
    /// Second attempts during which a worker may have nothing else: served before all others, one at a time.
    private var alone = CircularBuffer<PendingCall>()

    let capacity: Int

    /// - Parameter capacity: Calls of all callers together; a caller alone gets half of it.
    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { firstAttempts.count + repetitions.count + alone.count }

    var isEmpty: Bool { count == 0 }

    /// Whether the next call is one that runs alone.
    var nextRunsAlone: Bool { !alone.isEmpty }

    /// Returns true if one more call of this caller may wait: it has fewer calls than there is room left. A caller that
    /// has filled what it may have leaves room for every other, however many there are. Second attempts are bounded by
    /// what workers may hold, and so always admitted.
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

    /// The next call: one that runs alone, else a second attempt, else one of the caller that is next in the round. Calls
    /// whose caller has left are answered with a failure instead.
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
