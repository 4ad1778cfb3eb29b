import NIOCore
import WorkerProtocol

/// Calls that wait for a worker, by caller. Callers are served in turn, one call each, so that one who sends thousands
/// delays another by one call of its own and not by all of them.
struct WaitingCalls {
    /// Calls that wait for their first try, by caller; a caller without any has no entry.
    private var byCaller: [String?: CircularBuffer<PendingCall>] = [:]
    /// The callers that have calls, in the order in which they are served.
    private var round = CircularBuffer<String?>()
    /// Made before and to be made again: served before all others.
    private var repetitions = CircularBuffer<PendingCall>()

    private(set) var count = 0
    let capacity: Int

    /// - Parameter capacity: Calls of all callers together; a caller alone gets half of it.
    init(capacity: Int) {
        self.capacity = capacity
    }

    var isEmpty: Bool { count == 0 }

    /// Whether one more call of this caller may wait: it has fewer than there is room left. So whoever has filled what
    /// they can leaves room for everybody else, however many they are.
    func admits(_ caller: String?) -> Bool {
        (byCaller[caller]?.count ?? 0) < capacity - count
    }

    mutating func append(_ call: PendingCall) {
        let caller = call.terms.caller
        if byCaller[caller] == nil { round.append(caller) }
        byCaller[caller, default: []].append(call)
        count += 1
    }

    /// Before all others; bounded by what workers may hold, and so admitted always.
    mutating func prepend(_ repetition: PendingCall) {
        repetitions.prepend(repetition)
        count += 1
    }

    /// The next call: a repetition, else one of the caller whose turn it is.
    mutating func popFirst() -> PendingCall? {
        if let repetition = repetitions.popFirst() {
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

    /// - Returns: the calls that were removed.
    mutating func removeAll(where condition: (PendingCall) -> Bool) -> [PendingCall] {
        var removed: [PendingCall] = []
        func filter(_ calls: inout CircularBuffer<PendingCall>) {
            calls.removeAll { call in
                guard condition(call) else { return false }
                removed.append(call)
                return true
            }
        }
        filter(&repetitions)
        for caller in round {
            guard var calls = byCaller[caller] else { continue }
            filter(&calls)
            byCaller[caller] = calls.isEmpty ? nil : calls
        }
        round.removeAll { byCaller[$0] == nil }
        count -= removed.count
        return removed
    }
}

typealias CallResult = Result<WorkerAnswer, CallFailure>

/// One call on its way through a ``CallQueue``.
struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// The whole frame; a repetition sends the same one.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    /// Since when it has been waiting for its turn.
    var waitingSince: ContinuousClock.Instant
    var terms: CallTerms
    /// When it was handed to a worker, to which, and its place in the order of all that were.
    var sent: (at: ContinuousClock.Instant, lane: UInt64, place: UInt64)?
    /// When the worker began with it, as far as the order and the number of sessions tell.
    var begun: ContinuousClock.Instant?
    /// Since when it is certain that a session has it: a call behind it has been answered.
    var withSessionSince: ContinuousClock.Instant?
    /// Nobody waits for the answer any more; the worker is still at it.
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

extension CallResult {
    func answer() throws(WorkerFailure) -> WorkerAnswer {
        switch self {
        case .success(let answer): answer
        case .failure(let failure): throw failure.failure
        }
    }
}

/// One worker as a ``CallQueue`` sees it.
struct ConnectedWorker: Sendable {
    /// Rises with each worker that is started.
    let identifier: UInt64
    /// Hands a frame over without waiting.
    let send: @Sendable ([UInt8]) -> Void
    /// Ends the worker once it has nothing more to do: it sees the end of its input.
    let close: @Sendable () -> Void
    /// Ends the worker now.
    let kill: @Sendable (WorkerEvents.RestartReason) -> Void
}
