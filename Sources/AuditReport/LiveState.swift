public import AuditChain
public import DaemonAPI

/// What the asked daemon said when the report was made.
public struct LiveState: Sendable {
    public var askedAt: AuditTime
    public var status: StatusAnswer
    /// All keys that it lists.
    public var keys: [KeySummary]

    public init(askedAt: AuditTime, status: StatusAnswer, keys: [KeySummary]) {
        self.askedAt = askedAt
        self.status = status
        self.keys = keys
    }
}

/// What is needed to repeat the report's verdict, and what it was.
public struct VerifiedExport: Sendable {
    /// The export's file name, without its directory.
    public var file: String
    public var bytes: Int
    public var digest: AuditDigest
    /// The file of public keys that the commands name, without its directory.
    public var keyFile: String
    /// The node whose key that is, and whose record pins the other nodes' keys.
    public var keyNode: AuditNode?
    public var verdict: NodesVerdict

    public init(
        file: String, bytes: Int, digest: AuditDigest, keyFile: String, keyNode: AuditNode?, verdict: NodesVerdict
    ) {
        self.file = file
        self.bytes = bytes
        self.digest = digest
        self.keyFile = keyFile
        self.keyNode = keyNode
        self.verdict = verdict
    }

    /// Whether every record was proved.
    public var isProved: Bool { verdict.exitStatus == 0 }
}
