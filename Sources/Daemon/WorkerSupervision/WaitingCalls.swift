import FairShares
import NIOCore
package import WorkerProtocol

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
