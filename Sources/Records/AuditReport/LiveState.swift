public import AuditChain
public import DaemonAPI

/// The daemon's state at the time when the report was made.
public struct LiveState: Sendable {
    public var askedAt: AuditTime
    public var status: StatusAnswer
    /// All keys that the daemon lists, with the attributes that the HSM tokens reported.
    public var keys: [KeySummary]
    /// For the keys whose attributes were not read, a sentence with the reason, by publicKeyHash in base64.
    public var attributeFaults: [String: String]

    public init(
        askedAt: AuditTime, status: StatusAnswer, keys: [KeySummary], attributeFaults: [String: String] = [:]
    ) {
        self.askedAt = askedAt
        self.status = status
        self.keys = keys
        self.attributeFaults = attributeFaults
    }
}

/// The keys of another ledger, such as the test system's. No key may be in both.
public struct OtherLedger: Sendable {
    /// The source of the list, to show on the page.
    public var name: String
    /// publicKeyHashes in Base64.
    public var keys: Set<String>

    public init(name: String, keys: Set<String>) {
        self.name = name
        self.keys = keys
    }
}

/// The report's verdict, with everything that is needed to repeat it.
public struct VerifiedExport: Sendable {
    /// The export's file name, without its directory.
    public var file: String
    public var bytes: Int
    public var digest: AuditDigest
    /// The files of public keys as the verifiers' options name them, `NODE=FILE` or `FILE`, without directories.
    public var keyFiles: [String]
    /// The node whose record says which keys of other nodes are trusted.
    public var pinning: AuditNode?
    /// The page's own file name.
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

    /// True if every record was proved intact.
    public var isProved: Bool { verdict.isIntact }
}
