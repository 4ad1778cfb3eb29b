public import AuditChain
public import DaemonAPI

/// What the asked daemon said when the report was made.
public struct LiveState: Sendable {
    public var askedAt: AuditTime
    public var status: StatusAnswer
    /// All keys that it lists; with what their tokens say of them, where that was asked and answered.
    public var keys: [KeySummary]
    /// Why a key's attributes were not read, a sentence by its publicKeyHash in base64.
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

/// The keys of another ledger, say the test system's: no key may be in both.
public struct OtherLedger: Sendable {
    /// Where the list came from, for the page.
    public var name: String
    /// publicKeyHashes in Base64.
    public var keys: Set<String>

    public init(name: String, keys: Set<String>) {
        self.name = name
        self.keys = keys
    }
}

/// What is needed to repeat the report's verdict, and what it was.
public struct VerifiedExport: Sendable {
    /// The export's file name, without its directory.
    public var file: String
    public var bytes: Int
    public var digest: AuditDigest
    /// The files of public keys as the verifiers take them, `NODE=FILE` or `FILE`, without directories.
    public var keyFiles: [String]
    /// The node in whose record the other nodes' keys are pinned.
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

    /// Whether every record was proved.
    public var isProved: Bool { verdict.exitStatus == 0 }
}
