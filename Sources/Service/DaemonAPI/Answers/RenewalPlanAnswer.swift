public import Foundation

/// One item of `GET /v1/renewals/{merchant}`: the plan for the renewal of one of the merchant's certificates.
public struct RenewalPlanStatus: Codable, Sendable, Equatable {
    /// A node whose HSM tokens must have proved the new key.
    public struct Node: Codable, Sendable, Equatable {
        public var node: String
        /// True if the node has proved the key within the last 24 hours.
        public var proved: Bool
        /// True if it has done so with the key's certificate of Apple.
        public var provedWithCertificate: Bool

        public init(node: String, proved: Bool, provedWithCertificate: Bool) {
            self.node = node
            self.proved = proved
            self.provedWithCertificate = provedWithCertificate
        }
    }

    public var merchantIdentifier: String
    /// `EC` or `RSA`.
    public var algorithm: String
    /// `processing` or `identity`.
    public var use: String
    /// The new key, in Base64 of 32 bytes; absent if none waits.
    public var publicKeyHash: String?
    /// The time at which Apple's list was read; absent if this node has no list.
    public var readAt: Date?
    /// The next step, such as `prove` or `activate`; `stop` if something must be repaired first.
    public var step: String
    /// The next step: one sentence for a person, which names the API's requests.
    public var next: String
    /// All steps in order; empty if no renewal is under way.
    public var steps: [RotationStatus.Step]
    public var nodes: [Node]

    public init(
        merchantIdentifier: String, algorithm: String, use: String, publicKeyHash: String?, readAt: Date?, step: String,
        next: String, steps: [RotationStatus.Step], nodes: [Node]
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.publicKeyHash = publicKeyHash
        self.readAt = readAt
        self.step = step
        self.next = next
        self.steps = steps
        self.nodes = nodes
    }
}
