public import KeyTypes

/// The key in the HSM token that signs the audit chain's checkpoints: EC on P-256, or RSA-2048 in an HSM token that does
/// not sign with EC; sensitive, non-extractable, for signatures only. It is not a merchant key and is never listed as
/// one.
public struct AuditKeyDescription: Sendable, Equatable, Message {
    /// CKA_ID: 16 bytes, chosen by the daemon before the key is made.
    public var identifier: [UInt8] = []
    /// The HSM token's public key object: the uncompressed point of an EC key, 65 bytes (SEC 1 §2.3.3), or the
    /// SubjectPublicKeyInfo of an RSA key. Anyone with the PIN can put another object there, so the daemon compares it
    /// with the public key that was recorded when the key was made.
    public var publicKey: [UInt8] = []
    /// The algorithm with which the HSM token signs with this key.
    public var algorithm: AuditSignatureAlgorithm = .ecdsaP256

    public init(identifier: [UInt8], publicKey: [UInt8], algorithm: AuditSignatureAlgorithm) {
        self.identifier = identifier
        self.publicKey = publicKey
        self.algorithm = algorithm
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&identifier, atMost: FieldBound.auditKeyIdentifier)
        try coder.octets(&publicKey, atMost: FieldBound.auditPublicKey)
        try algorithm.field(&coder)
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
    /// The algorithm that the message names.
    public var algorithm: AuditSignatureAlgorithm = .ecdsaP256

    public init(identifier: [UInt8], message: [UInt8], algorithm: AuditSignatureAlgorithm) {
        self.identifier = identifier
        self.message = message
        self.algorithm = algorithm
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&identifier, atMost: FieldBound.auditKeyIdentifier)
        try coder.octets(&message, atMost: FieldBound.checkpoint)
        try algorithm.field(&coder)
    }
}

extension AuditSignatureAlgorithm {
    fileprivate mutating func field<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        var codePoint = codePoint
        try coder.integer(&codePoint)
        guard let known = Self(codePoint: codePoint) else { throw .invalidValue }
        self = known
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
