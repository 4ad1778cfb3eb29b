import WorkerProtocol

typealias CallResult = Result<WorkerAnswer, WorkerFailure>

/// One call on its way through a ``CallQueue``.
struct PendingCall: Sendable {
    let identifier: UInt64
    let operation: WorkerOperation
    /// The whole frame; a repetition sends the same one.
    let frame: [UInt8]
    let continuation: CheckedContinuation<CallResult, Never>
    /// Since when it has been waiting for its turn.
    var waitingSince: ContinuousClock.Instant
    /// When it was handed to a worker, and to which.
    var sent: (at: ContinuousClock.Instant, lane: UInt64)?
    /// It has been, or will be, made a second time and not a third.
    var isRepetition = false
    /// A worker ended while it had this call, perhaps because of it.
    var isSuspect = false

    func finish(_ result: CallResult) {
        continuation.resume(returning: result)
    }
}

/// One worker as a ``CallQueue`` sees it.
struct WorkerLane: Sendable {
    /// Rises with each worker that is started.
    let identifier: UInt64
    /// Hands a frame over without waiting.
    let send: @Sendable ([UInt8]) -> Void
    /// Ends the worker once it has nothing more to do: it sees the end of its input.
    let close: @Sendable () -> Void
    /// Ends the worker now.
    let kill: @Sendable (WorkerEvents.RestartReason) -> Void
}
