import WorkerProtocol

/// Whether a token can be used now.
enum HSMTokenCondition: Sendable, Equatable {
    /// A worker is being started, for the first time or after one that ended.
    case starting
    case ready(HSMTokenDescription)
    /// The reason, one sentence for a person. The daemon keeps trying.
    case unavailable(WorkerFailure)
}
