public import Foundation

/// The answer of `POST /v1/ledger/accept-clock`, which accepts the current clock as right.
public struct AcceptClockAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// The daemon's clock, to be checked in a dry run before it is accepted.
    public var clock: Date
    /// The time of the newest record if it is later than the clock, and so was written while a clock was ahead.
    /// Otherwise absent or null.
    public var newestRecord: Date?
    /// The signing time before which payment tokens were refused until now; absent or null if none were.
    public var forgottenBefore: Date?
    /// The signing time before which payment tokens are refused from now on (in a dry run: would be); later ones are
    /// served. Absent or null if that does not change.
    public var servedFrom: Date?

    public init(status: String, clock: Date, newestRecord: Date?, forgottenBefore: Date?, servedFrom: Date?) {
        self.status = status
        self.clock = clock
        self.newestRecord = newestRecord
        self.forgottenBefore = forgottenBefore
        self.servedFrom = servedFrom
    }
}

/// The answer of `POST /v1/ledger/accept-restore`, which puts an older ledger into service.
public struct AcceptRestoreAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// The sequence of the ledger's last record before the acceptance was recorded; 0 for an empty ledger.
    public var ledgerSequence: Int
    /// The sequence of the record that the HSM token remembered; absent or null if it remembered none.
    public var tokenSequence: Int?
    /// The signing time before which payment tokens are refused from now on unless the ledger has their release; later
    /// ones are served. Absent in a dry run, since it depends on the time of the acceptance.
    public var servedFrom: Date?

    public init(status: String = "accepted", ledgerSequence: Int, tokenSequence: Int?, servedFrom: Date?) {
        self.status = status
        self.ledgerSequence = ledgerSequence
        self.tokenSequence = tokenSequence
        self.servedFrom = servedFrom
    }
}

/// The answer of `POST /v1/ledger/backup?dry_run=true`, which copies nothing. Without the dry run the answer is the
/// copy.
public struct LedgerBackupDryRun: Codable, Sendable, Equatable {
    /// The sequence of the last record that a copy would contain now; 0 if there is none.
    public var ledgerSequence: Int

    public init(ledgerSequence: Int) {
        self.ledgerSequence = ledgerSequence
    }
}

/// The answer of `GET /v1/audit/public-key`: the data that a verification of the record needs in addition to an export.
public struct AuditPublicKeyAnswer: Codable, Sendable, Equatable {
    /// A key that has signed audit checkpoints.
    public struct Key: Codable, Sendable, Equatable {
        /// SHA-256 of the SubjectPublicKeyInfo, 64 lower-case hexadecimal digits; audit checkpoints contain it.
        public var keyId: String
        /// P-256, one PEM block `PUBLIC KEY` (RFC 7468 §13).
        public var publicKey: String

        public init(keyId: String, publicKey: String) {
            self.keyId = keyId
            self.publicKey = publicKey
        }
    }

    /// A node of the ledger, and the extent of its record.
    public struct Node: Codable, Sendable, Equatable {
        public var node: String
        /// True for the node of the answering daemon.
        public var isOwn: Bool
        /// The node's audit keys, the newest first. Another node's keys come from the ledger, where the server's
        /// superuser could change them.
        public var keys: [Key]
        /// The sequence of the node's last record; 0 for none.
        public var lastSequence: Int
        /// The sequence that the node's last audit checkpoint seals, where its export ends; absent or null if there is
        /// none.
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

    /// The node's audit keys, the newest first. Empty until the HSM token has been open for the first time.
    public var keys: [Key]
    /// The line of the newest audit checkpoint that the HSM token remembers; absent or null if it remembers none.
    public var head: String?
    /// The requested node, or all nodes with the daemon's own first; absent unless the request has `node`.
    public var nodes: [Node]?

    public init(keys: [Key], head: String? = nil, nodes: [Node]? = nil) {
        self.keys = keys
        self.head = head
        self.nodes = nodes
    }
}

/// The answer of `POST /v1/audit/key`, which makes another key sign the audit checkpoints.
public struct AuditKeyChangeAnswer: Codable, Sendable, Equatable {
    /// `changed`, or `unchanged` in a dry run.
    public var status: String
    /// The keyId (SHA-256 of the DER, hex) of the key that has signed until now.
    public var from: String
    /// The keyId of the key that signs from now on; absent in a dry run.
    public var to: String?
    /// The new key's public half in PEM; absent in a dry run.
    public var publicKey: String?

    public init(status: String, from: String, to: String? = nil, publicKey: String? = nil) {
        self.status = status
        self.from = from
        self.to = to
        self.publicKey = publicKey
    }
}
