public import Foundation

/// The progress of a merchant's rotation. `GET /v1/rotations` lists the rotations under way.
public struct RotationStatus: Codable, Sendable, Equatable {
    public struct Step: Codable, Sendable, Equatable {
        /// `generate`, `certificate`, `prove`, `console`, `activate`, `drain`, `finish` or `cut-off`.
        public var name: String
        /// `done`, `next` or `open`.
        public var status: String
        public var text: String

        public init(name: String, status: String, text: String) {
            self.name = name
            self.status = status
            self.text = text
        }
    }

    public var merchantIdentifier: String
    /// `EC` or `RSA`. Keys of the two algorithms are rotated separately.
    public var algorithm: String
    /// `processing`, `identity` or `google-pay`. Keys of different uses are rotated separately.
    @KeyUseField public var use: String
    /// `none`, `certificate`, `proof`, `console`, `activation`, `overlap`, `finish` or `cut-off`.
    public var phase: String
    /// The instruction for the current step: one sentence for a person, which names the API's requests.
    public var next: String
    /// The key that replaces the old ones; null if there is none.
    @Nullable public var newKey: RotationKey?
    /// The keys that ``newKey`` replaces: active ones, then deactivated ones that still open late payment tokens.
    public var oldKeys: [RotationKey]
    public var steps: [Step]
    /// Further sentences for a person; empty if there is nothing to add.
    public var remarks: [String]
    /// The node that counted ``RotationKey/refusedLastHour``, since each node counts its own refusals only. Absent if a
    /// single host uses the ledger.
    public var refusedOn: String?

    public init(
        merchantIdentifier: String, algorithm: String, use: String = "processing", phase: String, next: String,
        newKey: RotationKey?, oldKeys: [RotationKey], steps: [Step], remarks: [String], refusedOn: String? = nil
    ) {
        self.use = use
        self.refusedOn = refusedOn
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.phase = phase
        self.next = next
        self.newKey = newKey
        self.oldKeys = oldKeys
        self.steps = steps
        self.remarks = remarks
    }
}

/// One key of a rotation, with counts of the payment tokens that arrived for it.
public struct RotationKey: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    public var state: String
    public var condition: String
    public var createdAt: Date
    /// The certificate's notAfter; null without a certificate.
    @Nullable public var notAfter: Date?
    /// The time until which a deactivated key still opens payment tokens; null in other states.
    @Nullable public var cutOff: Date?
    public var tokens: [String]
    /// The number of payment tokens that this key opened within the last hour, on all nodes. Only first releases count, not
    /// repeats or replays. For an identity key: the number of its signatures.
    public var openedLastHour: Int
    /// The time of the key's last first release or signature; null if there was none.
    @Nullable public var lastUse: Date?
    /// The number of payment tokens with this publicKeyHash that this process refused within the last hour, without
    /// replays. The number is unverified, since Apple's signature does not cover the publicKeyHash. For a Google Pay key: the
    /// messages that it opened and that were refused.
    public var refusedLastHour: Int
    /// The reason why no available HSM token can use the key now, in any state of the key; absent while one can use it.
    public var fault: String?
    /// For an old Google Pay key: the time from which it counts as unused, if no payment comes before. Absent for others.
    public var unusedFrom: Date?
    /// For a new Google Pay key: the nodes that still have to prove it; absent for others, and if none has to.
    public var unprovedNodes: [String]?

    public init(
        publicKeyHash: String, state: String, condition: String, createdAt: Date, notAfter: Date?, cutOff: Date?,
        tokens: [String], openedLastHour: Int, lastUse: Date?, refusedLastHour: Int, fault: String? = nil,
        unusedFrom: Date? = nil, unprovedNodes: [String]? = nil
    ) {
        self.unusedFrom = unusedFrom
        self.unprovedNodes = unprovedNodes
        self.publicKeyHash = publicKeyHash
        self.state = state
        self.condition = condition
        self.createdAt = createdAt
        self.notAfter = notAfter
        self.cutOff = cutOff
        self.tokens = tokens
        self.openedLastHour = openedLastHour
        self.lastUse = lastUse
        self.refusedLastHour = refusedLastHour
        self.fault = fault
    }
}

/// The 200 answer of `POST /v1/rotations`.
public struct RotationStartAnswer: Codable, Sendable, Equatable {
    public var rotation: RotationStatus
    /// True if this request made the new key (in a dry run: would make it). False if a key was already waiting.
    public var created: Bool
    /// The certificate request (PKCS#10) in PEM; null in a dry run, and for a Google Pay key.
    @Nullable public var csr: String?

    public init(rotation: RotationStatus, created: Bool, csr: String?) {
        self.rotation = rotation
        self.created = created
        self.csr = csr
    }
}

/// The 200 answer of `POST /v1/rotations/certificate` and of `POST /v1/rotations/added`.
public struct RotationImportAnswer: Codable, Sendable, Equatable {
    public var rotation: RotationStatus
    /// The new key; in a dry run, the key as it would be.
    public var key: KeySummary

    public init(rotation: RotationStatus, key: KeySummary) {
        self.rotation = rotation
        self.key = key
    }
}

/// The 200 answer of `POST /v1/rotations/{merchant}/finish` and of `POST /v1/rotations/removed`.
public struct RotationFinishAnswer: Codable, Sendable, Equatable {
    public var rotation: RotationStatus
    /// The publicKeyHashes of the old keys that were deactivated (in a dry run: would be), in base64.
    public var retired: [String]
    /// The time until which the old keys still open late payment tokens; null if they open none any more.
    @Nullable public var cutOff: Date?

    public init(rotation: RotationStatus, retired: [String], cutOff: Date?) {
        self.rotation = rotation
        self.retired = retired
        self.cutOff = cutOff
    }
}
