public import DaemonAPI

/// The 200 answer of the gateway's `POST /v1/session-check`: the steps of asking Apple for a merchant session, with
/// their outcomes.
public struct SessionCheckAnswer: Codable, Sendable, Equatable {
    public enum Outcome: String, Codable, Sendable {
        case ok
        case failed
        case notReached = "not_reached"
    }

    public struct Step: Codable, Sendable, Equatable {
        /// `identity`, `name`, `connection`, `tls`, `signature` or `answer`.
        public var step: String
        public var outcome: Outcome

        public init(step: String, outcome: Outcome) {
            self.step = step
            self.outcome = outcome
        }
    }

    /// All steps in the order of execution. The steps after a failed one are ``Outcome/notReached``.
    public var steps: [Step]
    /// The code with which `POST /merchant-sessions` would refuse the same request; null if Apple returned a session.
    @Nullable public var code: String?
    /// The cause, and what to do.
    @Nullable public var message: String?
    @Nullable public var details: String?

    public init(steps: [Step], code: String?, message: String?, details: String?) {
        self.steps = steps
        self.code = code
        self.message = message
        self.details = details
    }
}
