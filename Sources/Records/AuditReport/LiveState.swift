public import AuditChain
public import DaemonAPI

/// The daemon's state at the time when the report was made.
public struct LiveState: Sendable {
    public var askedAt: AuditTime
    public var status: StatusAnswer
    /// All keys that the daemon lists.
    public var keys: [KeySummary]

    public init(askedAt: AuditTime, status: StatusAnswer, keys: [KeySummary]) {
        self.askedAt = askedAt
        self.status = status
        self.keys = keys
    }
}

/// The keys of another ledger, such as the test system's. No key may be in both.
public struct OtherLedger: Sendable {
    /// The source of the list of keys, for display, such as a file's name.
    public var name: String
    /// The publicKeyHashes of the other ledger's keys, in base64.
    public var keys: Set<String>

    public init(name: String, keys: Set<String>) {
        self.name = name
        self.keys = keys
    }
}

/// The verdict on an export, with everything that is needed to repeat its verification.
public struct VerifiedExport: Sendable {
    /// The export's file name, without its directory.
    public var file: String
    public var bytes: Int
    public var digest: AuditDigest
    /// The files of public keys, as in the options of the verification commands: `NODE=FILE` or `FILE`, without
    /// directories.
    public var keyFiles: [String]
    /// The node whose record names the trusted keys of other nodes; nil if no node's record was used for this.
    public var pinning: AuditNode?
    /// The file name of the assessor's page.
    public var page: String
    public var verdict: NodesVerdict

    public init(
        file: String, bytes: Int, digest: AuditDigest, keyFiles: [String], pinning: AuditNode?, page: String,
        verdict: NodesVerdict
    ) {
        self.file = file
        self.bytes = bytes
        self.digest = digest
        self.keyFiles = keyFiles
        self.pinning = pinning
        self.page = page
        self.verdict = verdict
    }

    /// True if the verdict proves every node's record intact.
    public var isProved: Bool { verdict.isIntact }
}
