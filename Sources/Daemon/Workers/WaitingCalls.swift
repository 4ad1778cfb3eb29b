import NIOCore
import WorkerProtocol

typealias CallResult = Result<WorkerAnswer, CallFailure>

/// One attempt at a call on its way through a ``CallQueue``.
struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// It opens the token: its worker does not serve yet.
    let isOpening: Bool
    /// The whole frame.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    let waitingSince: ContinuousClock.Instant
    let terms: CallTerms
    /// Whoever waited has been answered already; the worker is still working on it.
    var isAbandoned = false

    func finish(_ answer: WorkerAnswer) {
        guard !isAbandoned else { return }
        continuation.resume(returning: .success(answer))
    }

    func finish(_ failure: WorkerFailure, reach: CallFailure.Reach = .queue) {
        guard !isAbandoned else { return }
        continuation.resume(returning: .failure(CallFailure(failure: failure, reach: reach)))
    }

    func isPastDeadline(at now: ContinuousClock.Instant) -> Bool {
        terms.deadline.map { $0 < now } ?? false
    }

    static let deadlineExceeded = WorkerFailure(
        .deadlineExceeded, "The call was not answered within its deadline, its repetition included.")
}

/// Calls that wait for a worker, by caller. Callers are served round robin, one call each, so that one who sends
/// thousands delays another by one call of its own and not by all of them.
struct WaitingCalls {
    /// First attempts by caller; a caller without any has no entry.
    private var byCaller: [String?: CircularBuffer<PendingCall>] = [:]
    /// The callers that have calls, in the order in which they are served.
    private var round = CircularBuffer<String?>()
    /// Second attempts: served before all first ones.
    private var repetitions = CircularBuffer<PendingCall>()
    /// Second attempts during which a worker may have nothing else: served before all others, one at a time.
    private var alone = CircularBuffer<PendingCall>()

    private(set) var count = 0
    let capacity: Int

    /// - Parameter capacity: Calls of all callers together; a caller alone gets half of it.
    init(capacity: Int) {
        self.capacity = capacity
    }

    var isEmpty: Bool { count == 0 }

    /// Whether the next call is one that runs alone.
    var nextRunsAlone: Bool { !alone.isEmpty }

    /// Whether one more call of this caller may wait: it has fewer than there is room left. So whoever has filled what
    /// they can leaves room for everybody else, however many they are. Second attempts are bounded by what workers may
    /// hold, and so always admitted.
    func admits(_ terms: CallTerms) -> Bool {
        terms.isRepetition || (byCaller[terms.caller]?.count ?? 0) < capacity - (count - alone.count)
    }

    mutating func append(_ call: PendingCall) {
        count += 1
        if call.terms.runsAlone {
            alone.append(call)
        } else if call.terms.isRepetition {
            repetitions.append(call)
        } else {
            let caller = call.terms.caller
            if byCaller[caller] == nil { round.append(caller) }
            byCaller[caller, default: []].append(call)
        }
    }

    /// The next call: one that runs alone, else a second attempt, else one of the caller that is next in the round.
    mutating func popFirst() -> PendingCall? {
        if let repetition = alone.popFirst() ?? repetitions.popFirst() {
            count -= 1
            return repetition
        }
        guard let caller = round.popFirst(), let call = byCaller[caller]?.popFirst() else { return nil }
        count -= 1
        if byCaller[caller]?.isEmpty == true {
            byCaller[caller] = nil
        } else {
            round.append(caller)
        }
        return call
    }

    /// Removes calls and answers them with a failure.
    mutating func fail(_ failure: WorkerFailure, where condition: (PendingCall) -> Bool = { _ in true }) {
        var removed = 0
        func filter(_ calls: inout CircularBuffer<PendingCall>) {
            calls.removeAll { call in
                guard condition(call) else { return false }
                call.finish(failure)
                removed += 1
                return true
            }
        }
        filter(&alone)
        filter(&repetitions)
        for caller in round {
            guard var calls = byCaller[caller] else { continue }
            filter(&calls)
            byCaller[caller] = calls.isEmpty ? nil : calls
        }
        round.removeAll { byCaller[$0] == nil }
        count -= removed
    }
}
