public import KeyTypes

/// A worker's answer. ``WorkerRequest`` determines the case for each request.
public enum WorkerAnswer: Sendable, Equatable {
    case opened(HSMTokenDescription)
    /// All keys of the request, or the last page of them.
    case keys([KeyDescription])
    /// A page of keys, at least one. The next page is requested with this listing's number.
    case keyPage([KeyDescription], listing: UInt64)
    /// The private keys with the requested CKA_ID; none if the HSM token shows none.
    case keyAttributes([PrivateKeyAttributes])
    /// The opened data, and the tier that opened it. Opening needs secrets, so this answer also reports the bytes of
    /// the worker's secret memory that are not locked, at most ``FieldBound/unlockedSecrets``.
    case plaintext([UInt8], tier: ProtectionTier, unlockedSecrets: UInt32 = 0)
    /// The result of an import, of a probe, or of an audit checkpoint to be remembered.
    case done
    case auditKeys([AuditKeyDescription])
    /// The audit key that was made, or existed.
    case auditKey(AuditKeyDescription)
    /// An audit checkpoint's signature in DER (RFC 3279 §2.2.3), 8 to 72 bytes.
    case signature([UInt8])
    /// Audit checkpoints' lines, 1 to 4096 bytes each, in the HSM token's order.
    case heads([[UInt8]])
    /// The merchant key that was generated and tested, and is served from now on.
    case generatedKey(KeyDescription)
    /// A certificate request's signature: ECDSA in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with the modulus's
    /// length; both over SHA-256.
    case requestSignature([UInt8])
    /// A TLS handshake's signature, as long as the modulus.
    case tlsSignature([UInt8])
    case failed(WorkerFailure)
}

extension WorkerAnswer {
    /// The frame's type, 65 to 127.
    private var type: UInt8 {
        switch self {
        case .opened: 65
        case .keys: 66
        case .plaintext: 67
        case .done: 68
        case .failed: 69
        case .auditKeys: 70
        case .auditKey: 71
        case .signature: 72
        case .heads: 73
        case .generatedKey: 74
        case .requestSignature: 75
        case .keyPage: 76
        case .tlsSignature: 77
        case .keyAttributes: 78
        }
    }

    /// The fields of every answer, for reading and for writing.
    private mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        switch self {
        case .opened(let description): self = .opened(try coder.coded(description))
        case .keys(let keys): self = .keys(try coder.coded(keys, atMost: FieldBound.keys))
        case .keyPage(var keys, var listing):
            try coder.integer(&listing)
            try coder.messages(&keys, atMost: FieldBound.keys)
            self = .keyPage(keys, listing: listing)
        case .keyAttributes(let keys):
            self = .keyAttributes(try coder.coded(keys, atMost: FieldBound.privateKeysPerIdentifier))
        case .plaintext(var plaintext, var tier, var unlockedSecrets):
            try coder.octets(&plaintext, atMost: FieldBound.paymentData)
            try tier.field(&coder)
            try coder.integer(&unlockedSecrets, atMost: FieldBound.unlockedSecrets)
            self = .plaintext(plaintext, tier: tier, unlockedSecrets: unlockedSecrets)
        case .done: break
        case .failed(var failure):
            try coder.choice(&failure.kind)
            try coder.sentence(&failure.message)
            self = .failed(failure)
        case .auditKeys(let keys): self = .auditKeys(try coder.coded(keys, atMost: FieldBound.auditKeys))
        case .auditKey(let key): self = .auditKey(try coder.coded(key))
        case .signature(let der):
            self = .signature(try coder.coded(der, atMost: FieldBound.signature))
        case .heads(var lines):
            try coder.octetStrings(&lines, atMost: FieldBound.rememberedHeads, each: FieldBound.checkpoint)
            self = .heads(lines)
        case .generatedKey(let key): self = .generatedKey(try coder.coded(key))
        case .requestSignature(let signature):
            self = .requestSignature(try coder.coded(signature, atMost: FieldBound.requestSignature))
        case .tlsSignature(let signature):
            self = .tlsSignature(try coder.coded(signature, atMost: FieldBound.requestSignature))
        }
    }

    /// One empty answer of each kind, by its frame's type, whose fields are then read.
    private static let empty: [UInt8: WorkerAnswer] = Dictionary(
        uniqueKeysWithValues: [
            .opened(HSMTokenDescription()), .keys([]), .keyPage([], listing: 0), .plaintext([], tier: .c), .done,
            .auditKeys([]), .auditKey(AuditKeyDescription()), .signature([]), .heads([]),
            .generatedKey(KeyDescription()), .requestSignature([]), .tlsSignature([]), .keyAttributes([]),
            .failed(WorkerFailure(.hsmTokenUnavailable, "")),
        ].map { (answer: WorkerAnswer) in (answer.type, answer) })

    /// The answer as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` if a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        let capacity = if case .plaintext(let plaintext, _, _) = self { plaintext.count + 12 } else { 256 }
        var writer = FieldWriter(type: type, identifier: identifier, capacity: capacity)
        var answer = self
        try answer.fields(&writer)
        return try writer.frame(atMost: FieldBound.answerFrame)
    }

    /// Reads a frame that claims to be an answer.
    public init(_ frame: Frame) throws(FrameError) {
        guard var answer = Self.empty[frame.type] else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        try answer.fields(&reader)
        try reader.end()
        self = answer
    }
}

/// The reasons why a worker did not do its task. The set is closed, so that it reveals nothing else about an untrusted
/// caller's bytes or the library's state.
public struct WorkerFailure: Error, Sendable, Equatable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// The ephemeral point is not on the curve, the wrapped key does not open, or the GCM tag is wrong. An
        /// untrusted caller's bytes can cause it, so it says nothing about the HSM token's health.
        case decryptionFailed = 1
        /// No private key with that CKA_ID.
        case keyNotFound = 2
        /// The HSM token has no tier for the request.
        case notSupported = 3
        /// The library or the HSM token is unavailable, or the login is lost; another attempt may succeed.
        case hsmTokenUnavailable = 4
        /// The PIN was refused. It must not be tried again until the PIN file or the HSM token changes.
        case loginRefused = 5
        /// The HSM token or the worker refuses an import, a generation or a signature. The key is unsuitable, the pair
        /// does not match or exists already, the request belongs to another key, or the input is not a TLS handshake.
        case importRefused = 6
        /// The frame was not understood or came at the wrong time, or the versions differ.
        case protocolViolation = 7
        /// The daemon's queue is full, and nothing was attempted. Or the HSM token was busy until the deadline (no
        /// memory, no session), or failed this call although it works otherwise. The worker is not at fault.
        case overloaded = 8
        /// Two workers ended while they had this input, so the daemon sends it to no worker for a while. Only the
        /// daemon uses this code.
        case inputRefused = 9
        /// The HSM token works, but not for this request about the audit key or the remembered audit checkpoint. It is
        /// read-only, accepts no data objects, or shows too many; or the message is not an audit checkpoint.
        case auditRefused = 10
        /// Neither the call nor its second attempt was answered in time. Only the daemon uses this code.
        case deadlineExceeded = 11
        /// The listing whose page was requested has ended: another has begun, or the HSM token has since ended the
        /// session or the login. The keys must be listed again.
        case listingEnded = 12
    }

    public var kind: Kind
    /// One sentence for an operator: the PKCS#11 call and its CKR, if there was one. It never contains an untrusted
    /// caller's bytes.
    public var message: String
    /// The seconds after which another attempt makes sense, if known. The daemon adds this value; no frame contains it.
    public var retryAfter: Int?
    /// True if the call was sent to no worker, so that no HSM token acted on it. The daemon adds this value; no frame
    /// contains it.
    public var isUnsent: Bool

    public init(_ kind: Kind, _ message: String, retryAfter: Int? = nil, isUnsent: Bool = false) {
        self.kind = kind
        self.message = message
        self.retryAfter = retryAfter
        self.isUnsent = isUnsent
    }
}
