/// The key in the token that signs the audit chain's checkpoints, and what is signed with it: EC on P-256, sensitive,
/// non-extractable, for signatures only. It is no merchant key and is never listed among them.
public struct AuditKeyDescription: Sendable, Equatable {
    /// CKA_ID: 16 bytes, chosen by the daemon before the key is made.
    public var identifier: [UInt8]
    /// The uncompressed point, 65 bytes (SEC 1 §2.3.3), as the token's public key object has it. Anyone with the PIN
    /// can put another object there: it is to be compared with the one that was recorded when the key was made.
    public var publicPoint: [UInt8]

    public init(identifier: [UInt8], publicPoint: [UInt8]) {
        self.identifier = identifier
        self.publicPoint = publicPoint
    }

    /// A key's CKA_ID has 16 bytes: no merchant key's has, which is a SHA-256.
    public static let identifierByteCount = 16
}

/// A checkpoint to be signed.
public struct CheckpointSigning: Sendable, Equatable {
    /// The audit key's CKA_ID, 16 bytes.
    public var identifier: [UInt8]
    /// The bytes of the value of `checkpoint`, at most 4096: a JSON object whose first member is `node`. The worker
    /// refuses everything else, so that this key's signature never means something else.
    public var message: [UInt8]

    public init(identifier: [UInt8], message: [UInt8]) {
        self.identifier = identifier
        self.message = message
    }
}

/// The newest checkpoint of a node, for the token to keep as a data object.
public struct HeadToRemember: Sendable, Equatable {
    /// Whose chain it heads.
    public var node: String
    /// The checkpoint's whole line without its line feed, 1 to 4096 bytes.
    public var line: [UInt8]

    public init(node: String, line: [UInt8]) {
        self.node = node
        self.line = line
    }
}

extension AuditKeyDescription {
    func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(identifier, atMost: FieldBound.auditKeyIdentifier)
        try writer.octets(publicPoint, atMost: FieldBound.publicPoint)
    }

    init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            identifier: try reader.octets(atMost: FieldBound.auditKeyIdentifier),
            publicPoint: try reader.octets(atMost: FieldBound.publicPoint))
    }
}

extension CheckpointSigning {
    func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(identifier, atMost: FieldBound.auditKeyIdentifier)
        try writer.octets(message, atMost: FieldBound.checkpoint)
    }

    init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            identifier: try reader.octets(atMost: FieldBound.auditKeyIdentifier),
            message: try reader.octets(atMost: FieldBound.checkpoint))
    }
}

extension HeadToRemember {
    func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(node, atMost: FieldBound.node)
        try writer.octets(line, atMost: FieldBound.checkpoint)
    }

    init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            node: try reader.text(atMost: FieldBound.node),
            line: try reader.octets(atMost: FieldBound.checkpoint))
    }
}
