public import Foundation

/// The answer of `POST /v1/ledger/accept-clock`, by which an operator confirms that the daemon's clock is right.
public struct AcceptClockAnswer: Codable, Sendable, Equatable {
    /// `accepted`, or `unchanged` in a dry run.
    public var status: String
    /// The time by the daemon's clock. An operator checks it in a dry run before accepting it.
    public var clock: Date
    /// The time of the newest record, if it is later than ``clock``: a clock was ahead when that record was written. Absent
    /// or null otherwise.
    public var newestRecord: Date?
    /// The limit until this acceptance: payment tokens signed before this time were refused. Absent or null if there was no
    /// limit.
    public var forgottenBefore: Date?
    /// The new limit: payment tokens signed before this time are refused from now on (in a dry run: would be). Absent or
    /// null if the limit does not change.
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
    /// The sequence of the record that the HSM token remembered; absent or null if the HSM token remembered none.
    public var tokenSequence: Int?
    /// The fence. A payment token that was signed before this time is refused from now on, unless the ledger has its
    /// release. Absent in a dry run, since the fence depends on the time of the acceptance.
    public var servedFrom: Date?

    public init(status: String = "accepted", ledgerSequence: Int, tokenSequence: Int?, servedFrom: Date?) {
        self.status = status
        self.ledgerSequence = ledgerSequence
        self.tokenSequence = tokenSequence
        self.servedFrom = servedFrom
    }
}

/// The answer of `POST /v1/ledger/backup?dry_run=true`, which copies nothing. Without `dry_run` the body is the copy
/// itself.
public struct LedgerBackupDryRun: Codable, Sendable, Equatable {
    /// The sequence of the last record that a copy would contain now; 0 if there is none.
    public var ledgerSequence: Int

    public init(ledgerSequence: Int) {
        self.ledgerSequence = ledgerSequence
    }
}

/// The answer of `POST /v1/audit/reports`.
public struct AuditReportAnswer: Codable, Sendable, Equatable {
    /// The audit record of the report.
    public var audit: AuditReference

    public init(audit: AuditReference) {
        self.audit = audit
    }
}

/// The answer of `GET /v1/audit/public-key`: the keys and sequences that a verification of the record needs in addition to
/// an export.
public struct AuditPublicKeyAnswer: Codable, Sendable, Equatable {
    /// A key that has signed audit checkpoints.
    public struct Key: Codable, Sendable, Equatable {
        /// SHA-256 of the SubjectPublicKeyInfo, 64 lower-case hexadecimal digits; audit checkpoints contain it.
        public var keyId: String
        /// The P-256 public key as one PEM block `PUBLIC KEY` (RFC 7468 §13).
        public var publicKey: String

        public init(keyId: String, publicKey: String) {
            self.keyId = keyId
            self.publicKey = publicKey
        }
    }

    /// One node of the ledger, with its audit keys and the length of its record.
    public struct Node: Codable, Sendable, Equatable {
        public var node: String
        /// True for the node of the answering daemon.
        public var isOwn: Bool
        /// The node's audit keys, the newest first. Another node's keys are read from the ledger, where a superuser of the
        /// database could have changed them.
        public var keys: [Key]
        /// The sequence of the node's last record; 0 if it has none.
        public var lastSequence: Int
        /// The sequence of the last record that the node's last audit checkpoint seals. The node's export ends there.
        /// Absent or null if the node has no audit checkpoint.
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
    /// The newest audit checkpoint that the HSM token remembers, as its line in the record. Absent or null if the HSM token
    /// remembers none.
    public var head: String?
    /// The node that the request's `node` parameter names, or all nodes with the daemon's own first. Absent if the request
    /// has no such parameter.
    public var nodes: [Node]?

    public init(keys: [Key], head: String? = nil, nodes: [Node]? = nil) {
        self.keys = keys
        self.head = head
        self.nodes = nodes
    }
}

/// The answer of `POST /v1/audit/key`, which replaces the key that signs the audit checkpoints.
public struct AuditKeyChangeAnswer: Codable, Sendable, Equatable {
    /// `changed`, or `unchanged` in a dry run.
    public var status: String
    /// The ``AuditPublicKeyAnswer/Key/keyId`` of the key that has signed until now.
    public var from: String
    /// The ``AuditPublicKeyAnswer/Key/keyId`` of the key that signs from now on; absent in a dry run.
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

/// The answer of `POST /v1/tokens/{token}/remove-test-keys`, which removes the stored key pairs of the self-tests.
public struct TestKeyRemovalAnswer: Codable, Sendable, Equatable {
    /// `removed`, or `unchanged` in a dry run.
    public var status: String
    /// The number of key pairs that were removed; absent in a dry run.
    public var pairs: Int?

    public init(status: String, pairs: Int? = nil) {
        self.status = status
        self.pairs = pairs
    }
}
