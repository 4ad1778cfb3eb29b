public import Foundation

/// How far a merchant's rotation has come: `GET /v1/rotations` lists those under way.
public struct RotationStatus: Codable, Sendable, Equatable {
    public struct Step: Codable, Sendable, Equatable {
        /// `generate`, `certificate`, `activate`, `drain`, `finish` or `cut-off`.
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
    /// `EC` or `RSA`; keys of both are rotated apart.
    public var algorithm: String
    /// `processing` or `identity`, rotated apart.
    @StatedUse public var use: String
    /// `none`, `certificate`, `activation`, `overlap`, `finish` or `cut-off`.
    public var phase: String
    /// The sentence for the step that is due now, for people, in words of the API.
    public var next: String
    /// The key that is to stay; null when there is none.
    @Nullable public var newKey: RotationKey?
    /// Keys that it replaces: active ones, then deactivated ones that still open late tokens.
    public var oldKeys: [RotationKey]
    public var steps: [Step]
    /// What a person should know besides.
    public var remarks: [String]
    /// Where several hosts share the ledger: the node that has counted `refusedLastHour`, which the others count for themselves.
    /// Absent where there is one host.
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

/// One key of a rotation, and what arrived for it.
public struct RotationKey: Codable, Sendable, Equatable {
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    public var state: String
    public var condition: String
    public var createdAt: Date
    /// The certificate's end; null without a certificate.
    @Nullable public var notAfter: Date?
    /// Until when a deactivated key still opens tokens; null in other states.
    @Nullable public var cutOff: Date?
    public var tokens: [String]
    /// Tokens that it opened within the last hour, by the ledger, on all its nodes: first releases, neither repeats nor replays.
    /// Of an identity key, its signatures.
    public var openedLastHour: Int
    /// The last of them.
    @Nullable public var lastUse: Date?
    /// Tokens that named it and that this process refused within the last hour, replays left out. Unverified: Apple does not
    /// sign which key a token names.
    public var refusedLastHour: Int
    /// Why no available token uses it now, whatever its state; absent while one does.
    public var fault: String?

    public init(
        publicKeyHash: String, state: String, condition: String, createdAt: Date, notAfter: Date?, cutOff: Date?,
        tokens: [String], openedLastHour: Int, lastUse: Date?, refusedLastHour: Int, fault: String? = nil
    ) {
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
    /// Whether the new key was made now (in a dry run: would be); false when one was waiting for its certificate.
    public var created: Bool
    /// PKCS#10 in PEM; null in a dry run.
    @Nullable public var csr: String?

    public init(rotation: RotationStatus, created: Bool, csr: String?) {
        self.rotation = rotation
        self.created = created
        self.csr = csr
    }
}

/// The 200 answer of `POST /v1/rotations/certificate`.
public struct RotationImportAnswer: Codable, Sendable, Equatable {
    public var rotation: RotationStatus
    /// The new key; in a dry run as it would be.
    public var key: KeySummary

    public init(rotation: RotationStatus, key: KeySummary) {
        self.rotation = rotation
        self.key = key
    }
}

/// The 200 answer of `POST /v1/rotations/{merchant}/finish`.
public struct RotationFinishAnswer: Codable, Sendable, Equatable {
    public var rotation: RotationStatus
    /// The old keys that were deactivated (in a dry run: would be), base64 of 32 bytes each.
    public var retired: [String]
    /// Until when they still open tokens; null: they do not any more.
    @Nullable public var cutOff: Date?

    public init(rotation: RotationStatus, retired: [String], cutOff: Date?) {
        self.rotation = rotation
        self.retired = retired
        self.cutOff = cutOff
    }
}
