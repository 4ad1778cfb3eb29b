internal import StrictJSON

/// One record as it is stored and exported, byte for byte, without the line feed.
///
/// A JSON object in compact form: `node`, `sequence`, `time`, `event`, `outcome`, then whichever of `caller` (`name`,
/// `uid`, `gid`, `loginUid`, `pid`, `comm`), `merchant`, `publicKeyHash`, `transactionId`, `protection`, `token` there
/// are, the event's own members, and last `hash`. Hash = SHA-256(previous ‖ body): previous = the 32 raw bytes of the
/// same node's record before, zeros for sequence 1; body = the line's bytes before `,"hash":`.
///
/// Lines are made by ``ChainHead/append(_:)`` only.
public struct AuditLine: Sendable, Equatable {
    /// A longer line is no record; none that is made here comes near.
    public static let maximumBytes = 16_384

    public let node: AuditNode
    /// From 1, without gaps.
    public let sequence: Int
    public let hash: AuditDigest
    /// UTF-8, at most ``maximumBytes``.
    public let bytes: [UInt8]

    init(_ record: AuditRecord, node: AuditNode, sequence: Int, previous: AuditDigest) {
        var writer = JSONWriter(capacity: 768)
        writer.beginObject()
        writer.member("node")
        writer.string(node.name)
        writer.member("sequence")
        writer.number(sequence)
        record.write(into: &writer)
        var bytes = writer.bytes
        let hash = AuditDigest.following(previous, body: bytes[...])
        bytes.append(contentsOf: ",\"hash\":\"".utf8)
        bytes.append(contentsOf: hash.hex.utf8)
        bytes.append(contentsOf: "\"}".utf8)
        self.node = node
        self.sequence = sequence
        self.hash = hash
        self.bytes = bytes
    }
}

/// Where a node's chain ends: what the next record is chained to and what a checkpoint seals.
///
/// A value: append to a copy, make the lines durable, then keep the copy. When the write fails, the old value still
/// says where the chain really ends.
public struct ChainHead: Sendable, Equatable {
    public let node: AuditNode
    /// The last record's sequence; 0 before the first.
    public private(set) var sequence: Int
    /// The last record's hash; zeros before the first.
    public private(set) var hash: AuditDigest

    /// The beginning of a new chain.
    public init(node: AuditNode) {
        self.node = node
        sequence = 0
        hash = .zero
    }

    /// Behind a record that is stored already. Nil when the sequence is negative, or 0 with another hash than zeros.
    public init?(node: AuditNode, sequence: Int, hash: AuditDigest) {
        guard sequence > 0 || (sequence == 0 && hash == .zero) else { return nil }
        self.node = node
        self.sequence = sequence
        self.hash = hash
    }

    /// Makes the next line and stands behind it.
    public mutating func append(_ record: AuditRecord) -> AuditLine {
        let line = AuditLine(record, node: node, sequence: sequence + 1, previous: hash)
        sequence = line.sequence
        hash = line.hash
        return line
    }
}
