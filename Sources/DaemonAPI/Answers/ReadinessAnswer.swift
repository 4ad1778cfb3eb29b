/// The body of `GET /readyz`, with 200 when `ready` and 503 when not.
public struct ReadinessAnswer: Codable, Sendable, Equatable {
    /// One thing that keeps the daemon from serving.
    public struct Reason: Codable, Sendable, Equatable {
        /// `ledger`, or `token` and its configured name: `token primary`.
        public var component: String
        /// The refusal that a decryption would meet: `hsm_unavailable`, `ledger_unavailable` …
        public var code: String
        public var message: String

        public init(component: String, code: String, message: String) {
            self.component = component
            self.code = code
            self.message = message
        }
    }

    public var ready: Bool
    /// Only to a peer that an access rule matches; nil to others.
    public var reasons: [Reason]?

    public init(ready: Bool, reasons: [Reason]? = nil) {
        self.ready = ready
        self.reasons = reasons
    }
}

/// The body of `GET /healthz`: answering at all is the answer.
public struct HealthAnswer: Codable, Sendable, Equatable {
    public var healthy = true

    public init() {}
}
