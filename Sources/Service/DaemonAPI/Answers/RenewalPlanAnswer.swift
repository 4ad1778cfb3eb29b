public import Foundation

/// One item of `GET /v1/renewals/{merchant}`, and the answer of `POST /v1/renewals`: the state of the renewal of one of the
/// merchant's certificates.
public struct RenewalPlanStatus: Codable, Sendable, Equatable {
    /// A node of the ledger, or one that the setting `renewal.nodes` names.
    public struct Node: Codable, Sendable, Equatable {
        public var node: String
        /// True if the node has proved the key within the last 24 hours.
        public var proved: Bool
        /// True if it has done so with the key's certificate of Apple.
        public var provedWithCertificate: Bool
        /// True if the node's HSM tokens must have proved the key before a change at Apple.
        public var required: Bool
        /// True if its daemon runs, so that it cannot be excluded.
        public var up: Bool
        /// The time of its daemon's last commit, by the server's clock; absent if unknown, as for a ledger in a file.
        public var lastSeen: Date?

        public init(
            node: String, proved: Bool, provedWithCertificate: Bool, required: Bool, up: Bool, lastSeen: Date? = nil
        ) {
            self.node = node
            self.proved = proved
            self.provedWithCertificate = provedWithCertificate
            self.required = required
            self.up = up
            self.lastSeen = lastSeen
        }
    }

    /// A certificate that wallets use.
    public struct CertificateInUse: Codable, Sendable, Equatable {
        /// Apple's id.
        public var certificateId: String
        public var notAfter: Date
        /// The time from which its renewal is due: 60 days before its end.
        public var renewFrom: Date

        public init(certificateId: String, notAfter: Date, renewFrom: Date) {
            self.certificateId = certificateId
            self.notAfter = notAfter
            self.renewFrom = renewFrom
        }
    }

    /// One attempt at a change at Apple.
    public struct Attempt: Codable, Sendable, Equatable {
        /// `create`, `activate` or `revoke`.
        public var change: String
        /// The number among the attempts at this change, from 1.
        public var number: Int
        /// The attempt's identifier in the record, 16 hex characters.
        public var attempt: String
        public var intendedAt: Date
        /// `intended`, `accepted`, `refused`, `not_sent` or `unknown`.
        public var outcome: String
        /// Apple's status and code of a refusal, or the reason why the outcome is unknown or nothing was sent.
        public var code: String?
        /// The approval that the attempt used; absent if it needed none.
        public var approval: String?

        public init(
            change: String, number: Int, attempt: String, intendedAt: Date, outcome: String, code: String?,
            approval: String?
        ) {
            self.change = change
            self.number = number
            self.attempt = attempt
            self.intendedAt = intendedAt
            self.outcome = outcome
            self.code = code
            self.approval = approval
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
    /// The attempt about whose repetition a person decides; absent unless the step is `decide_repeat`.
    public var repeatable: RenewalRequest.Attempt?
    /// The one certificate of this use and algorithm that wallets use; of several identity certificates, the one that ends last.
    /// Absent if there is none, if Apple does not say which it is, or if this node has no list.
    public var certificateInUse: CertificateInUse?
    /// The renewal's identifier, 16 hex characters; absent, like all of the following, if none was begun.
    public var renewal: String?
    /// The name of the access rule that matched the person who started it.
    public var startedBy: String?
    /// That person's uid.
    public var starter: UInt32?
    /// The node on which it was started.
    public var startedOn: String?
    /// `open`, `finished` or `abandoned`.
    public var state: String?
    /// Apple's id of the new certificate; absent until it is known.
    public var certificateId: String?
    /// Apple's id of the certificate that wallets used when the new one was requested; absent if there was none.
    public var previousCertificateId: String?
    /// The change at Apple that is next; absent if the next step is none.
    public var nextChange: RenewalChange?
    /// The attempts at changes at Apple, in their order.
    public var attempts: [Attempt]?

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
