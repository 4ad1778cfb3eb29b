public import Foundation

/// The body of `POST /v1/ledger/accept-clock`: the present clock is taken for right.
public struct AcceptClockAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// What the daemon's clock says: look at it in a dry run, before it is accepted.
    public var clock: Date
    /// The newest record's time, which a clock that was ahead wrote; absent or null when the clock is not behind it.
    public var newestRecord: Date?
    /// Tokens signed before this were refused until now; absent or null when none were.
    public var forgottenBefore: Date?
    /// Tokens signed before this are refused from now on (in a dry run: would be), later ones are served; absent or null
    /// when that does not change.
    public var servedFrom: Date?

    public init(status: String, clock: Date, newestRecord: Date?, forgottenBefore: Date?, servedFrom: Date?) {
        self.status = status
        self.clock = clock
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.servedFrom = servedFrom
    }
}

/// The body of `POST /v1/ledger/accept-restore`: an older ledger is in service.
public struct AcceptRestoreAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// Where the ledger's record ended before this was recorded in it; 0 for an empty one.
    public var ledgerSequence: Int
    /// The record that the token remembered; absent or null when it remembered none.
    public var tokenSequence: Int?
    /// Payment tokens signed before this are refused from now on, where no release of them is known; later ones are served.
    /// Absent in a dry run: it depends on the moment of the acceptance.
    public var servedFrom: Date?

    public init(status: String = "accepted", ledgerSequence: Int, tokenSequence: Int?, servedFrom: Date?) {
        self.status = status
        self.ledgerSequence = ledgerSequence
        self.tokenSequence = tokenSequence
        self.servedFrom = servedFrom
    }
}

/// The body of `POST /v1/ledger/backup?dry_run=true`: nothing was copied. Without the dry run the body is the copy itself.
public struct LedgerBackupDryRun: Codable, Sendable, Equatable {
    /// The last record that a copy would have now; 0 when there is none.
    public var ledgerSequence: Int

    public init(ledgerSequence: Int) {
        self.ledgerSequence = ledgerSequence
    }
}

/// The body of `GET /v1/audit/public-key`: what a verification of the record needs beside an export.
public struct AuditPublicKeyAnswer: Codable, Sendable, Equatable {
    /// A key that has signed checkpoints.
    public struct Key: Codable, Sendable, Equatable {
        /// SHA-256 of the SubjectPublicKeyInfo, 64 lower-case hexadecimal digits; checkpoints name it.
        public var keyId: String
        /// P-256, one PEM block `PUBLIC KEY` (RFC 7468 §13).
        public var publicKey: String

        public init(keyId: String, publicKey: String) {
            self.keyId = keyId
            self.publicKey = publicKey
        }
    }

    /// A node of the ledger, and how far its record reaches.
    public struct Node: Codable, Sendable, Equatable {
        public var node: String
        /// Whether it is the daemon's that answers.
        public var isOwn: Bool
        /// The newest first. Another node's are those that the ledger gives, which its server's superuser could change.
        public var keys: [Key]
        /// The last record; 0 for none.
        public var lastSequence: Int
        /// The record of its last checkpoint, with which its export ends; absent or null when there is none.
        public var sealedSequence: Int?
        public var sealedAt: Date?

        public init(
            node: String, isOwn: Bool, keys: [Key], lastSequence: Int, sealedSequence: Int?, sealedAt: Date?
        ) {
            self.node = node
            self.isOwn = isOwn
            self.keys = keys
            self.lastSequence = lastSequence
            self.sealedSequence = sealedSequence
            self.sealedAt = sealedAt
        }
    }

    /// The newest first. Empty before the token has been seen for the first time.
    public var keys: [Key]
    /// The newest checkpoint that the token remembers, as its line; absent or null when it remembers none.
    public var head: String?
    /// Where `node` was asked for: that one, or all, the daemon's own first.
    public var nodes: [Node]?

    public init(keys: [Key], head: String? = nil, nodes: [Node]? = nil) {
        self.keys = keys
        self.head = head
        self.nodes = nodes
    }
}

/// The body of `POST /v1/audit/key`: another key signs the record's checkpoints.
public struct AuditKeyChangeAnswer: Codable, Sendable, Equatable {
    /// `changed`, or `unchanged` in a dry run.
    public var status: String
    /// keyId (SHA-256 of the DER, hex) of the key that signed until now.
    public var from: String
    /// keyId of the key that signs from now on; absent in a dry run.
    public var to: String?
    /// Its public half in PEM; absent in a dry run.
    public var publicKey: String?

    public init(status: String, from: String, to: String? = nil, publicKey: String? = nil) {
        self.status = status
        self.from = from
        self.to = to
        self.publicKey = publicKey
    }
}
