/// The key in the HSM token that signs the audit chain's checkpoints: EC on P-256, sensitive, non-extractable, for
/// signatures only. It is not a merchant key and is never listed as one.
public struct AuditKeyDescription: Sendable, Equatable, Message {
    /// CKA_ID: 16 bytes, chosen by the daemon before the key is made.
    public var identifier: [UInt8] = []
    /// The uncompressed point, 65 bytes (SEC 1 §2.3.3), of the HSM token's public key object. Anyone with the PIN can
    /// put another object there, so the daemon compares it with the point that was recorded when the key was made.
    public var publicPoint: [UInt8] = []

    public init(identifier: [UInt8], publicPoint: [UInt8]) {
        self.identifier = identifier
        self.publicPoint = publicPoint
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&identifier, atMost: FieldBound.auditKeyIdentifier)
        try coder.octets(&publicPoint, atMost: FieldBound.publicPoint)
    }

    /// The size of an audit key's CKA_ID. It differs from that of a merchant key's CKA_ID, a SHA-256.
    public static let identifierByteCount = 16
}

/// An audit checkpoint to be signed.
public struct CheckpointSigning: Sendable, Equatable, Message {
    /// The audit key's CKA_ID, 16 bytes.
    public var identifier: [UInt8] = []
    /// The bytes of the value of `checkpoint`, at most 4096: a JSON object whose first member is `node`. The worker
    /// refuses all other input, so this key signs nothing else.
    public var message: [UInt8] = []

    public init(identifier: [UInt8], message: [UInt8]) {
        self.identifier = identifier
        self.message = message
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&identifier, atMost: FieldBound.auditKeyIdentifier)
        try coder.octets(&message, atMost: FieldBound.checkpoint)
    }
}

/// The newest audit checkpoint of a node, for the HSM token to keep as a data object.
public struct HeadToRemember: Sendable, Equatable, Message {
    /// The node whose chain ends with this audit checkpoint.
    public var node: String = ""
    /// The audit checkpoint's whole line without its line feed, 1 to 4096 bytes.
    public var line: [UInt8] = []

    public init(node: String, line: [UInt8]) {
        self.node = node
        self.line = line
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.text(&node, atMost: FieldBound.node)
        try coder.octets(&line, atMost: FieldBound.checkpoint)
    }
}
