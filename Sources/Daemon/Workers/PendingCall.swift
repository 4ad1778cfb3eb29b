import WorkerProtocol

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
