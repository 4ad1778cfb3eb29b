import WorkerProtocol

/// Why a call was not answered, and how far it had come: what another token may be asked depends on both.
struct CallFailure: Error, Sendable, Equatable {
    enum Reach: Sendable {
        /// No worker had it.
        case queue
        /// A worker answered so.
        case worker
        /// The worker ended while it had the call, perhaps because of it.
        case endedWorker
    }

    let failure: WorkerFailure
    let reach: Reach

    var kind: WorkerFailure.Kind { failure.kind }
    var message: String { failure.message }
}

/// What a call is entitled to.
struct CallTerms: Sendable {
    /// Who made it, as in records: callers are served in turn. nil for administration and what the daemon asks for
    /// itself, which together are one caller.
    var caller: String?
    /// Whoever waits for the answer is told by then that there is none, wherever the call is. nil for calls whose
    /// answer somebody needs however long it takes.
    var deadline: ContinuousClock.Instant?
    /// It has been made before, and is not made a third time.
    var isRepetition = false
    /// A worker ended while it had this call, perhaps because of it: nothing else is with a worker meanwhile.
    var runsAlone = false
    /// When its worker ends it is not made again here: who made it knows another token.
    var comesBack = false
}
