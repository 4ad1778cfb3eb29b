/// What a worker answers. Which case answers which request is fixed by ``WorkerRequest``.
public enum WorkerAnswer: Sendable, Equatable {
    case opened(HSMTokenDescription)
    /// All keys that were asked for, or the last page of them.
    case keys([KeyDescription])
    /// A page of keys, at least one, after which more are to be asked for with this listing's number.
    case keyPage([KeyDescription], listing: UInt64)
    /// The opened data, and the tier that opened it. Opening is what secrets are needed for, so this answer also tells
    /// how much of the worker's secret memory is not locked by now, in bytes, at most ``FieldBound/unlockedSecrets``.
    case plaintext([UInt8], tier: ProtectionTier, unlockedSecrets: UInt32 = 0)
    /// An import, a probe, a checkpoint to be remembered.
    case done
    case auditKeys([AuditKeyDescription])
    /// The audit key that was made, or was there.
    case auditKey(AuditKeyDescription)
    /// A checkpoint's signature in DER (RFC 3279 §2.2.3), 8 to 72 bytes.
    case signature([UInt8])
    /// Checkpoints' lines, 1 to 4096 bytes each, in the token's order.
    case heads([[UInt8]])
    /// The merchant key that was made, tested and is served from now on.
    case generatedKey(KeyDescription)
    /// A certificate request's signature: ECDSA in DER (RFC 3279 §2.2.3), or RSA PKCS #1 v1.5 with the modulus's
    /// length; both over SHA-256.
    case requestSignature([UInt8])
    case failed(WorkerFailure)
}

/// What leaves the token while it works: only the payment data (A, B), or one transaction's symmetric key, to the
/// worker's wiped memory (C). The merchant private key never leaves.
public enum ProtectionTier: String, Sendable, Equatable, CaseIterable {
    case a = "A"
    case b = "B"
    case c = "C"
}

public struct HSMTokenDescription: Sendable, Equatable {
    public var label: String
    public var serialNumber: String
    public var manufacturer: String
    public var model: String
    /// The library's own description and version, for people.
    public var library: String
    public var sessions: UInt16
    /// The strongest tier that passed its known-answer test; nil when the token cannot serve that version.
    public var tierECv1: ProtectionTier?
    public var tierRSAv1: ProtectionTier?
    /// Why a version cannot be served, one sentence for a person each.
    public var shortcomings: [String]
    /// The worker's own public key for imports, made anew at each start: P-256, uncompressed point, 65 bytes.
    public var importKey: [UInt8]
    /// How much of the worker's secret memory is not locked, since the limit on locked memory is used up: bytes, at most
    /// ``FieldBound/unlockedSecrets``.
    public var unlockedSecrets: UInt32

    public init(
        label: String, serialNumber: String, manufacturer: String, model: String, library: String, sessions: UInt16,
        tierECv1: ProtectionTier?, tierRSAv1: ProtectionTier?, shortcomings: [String], importKey: [UInt8],
        unlockedSecrets: UInt32 = 0
    ) {
        self.unlockedSecrets = unlockedSecrets
        self.label = label
        self.serialNumber = serialNumber
        self.manufacturer = manufacturer
        self.model = model
        self.library = library
        self.sessions = sessions
        self.tierECv1 = tierECv1
        self.tierRSAv1 = tierRSAv1
        self.shortcomings = shortcomings
        self.importKey = importKey
    }
}

public enum KeyAlgorithm: UInt8, Sendable, Equatable {
    /// EC on P-256.
    case ec = 1
    /// RSA with 2048 bits.
    case rsa = 2
}

/// One private key object of the token and what belongs to it.
public struct KeyDescription: Sendable, Equatable {
    /// The private key's CKA_ID as it stands in the token; a hint, compared with the recomputed hash at load.
    public var identifier: [UInt8]
    /// CKA_LABEL; a hint.
    public var label: String
    public var algorithm: KeyAlgorithm
    /// SubjectPublicKeyInfo in DER, built from the token's public key; empty when there is none.
    public var subjectPublicKeyInfo: [UInt8]
    /// CKO_CERTIFICATE objects with the same CKA_ID, DER, in the token's order.
    public var certificates: [[UInt8]]
    /// CKA_SENSITIVE is true and CKA_EXTRACTABLE false.
    public var isProtected: Bool
    /// Why the key is not to be served, for people: the identifier is not the hash, the pair failed its test …
    public var inconsistency: String?

    public init(
        identifier: [UInt8], label: String, algorithm: KeyAlgorithm, subjectPublicKeyInfo: [UInt8],
        certificates: [[UInt8]], isProtected: Bool, inconsistency: String?
    ) {
        self.identifier = identifier
        self.label = label
        self.algorithm = algorithm
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
        self.certificates = certificates
        self.isProtected = isProtected
        self.inconsistency = inconsistency
    }
}

/// Why a worker did not do what it was asked: a closed set, so that nothing of a stranger's bytes or of the
/// library's inner state comes back but this.
public struct WorkerFailure: Error, Sendable, Equatable {
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// The ephemeral point is not on the curve, the wrapped key does not open, or the GCM tag is wrong. A
        /// stranger's bytes can cause it: it says nothing about the token's health.
        case decryptionFailed = 1
        /// No private key with that CKA_ID.
        case keyNotFound = 2
        /// The token has no tier for what was asked.
        case notSupported = 3
        /// The library, the token or the login cannot be had now; another try may succeed.
        case tokenUnavailable = 4
        /// The PIN was refused. Not to be tried again until the PIN file or the token changes.
        case loginRefused = 5
        /// An import, a generation or a request's signature that the token or the worker refuses: unsuitable key, the
        /// pair does not fit, it exists, the request is another key's.
        case importRefused = 6
        /// The frame was not understood, or came at the wrong time, or the versions differ.
        case protocolViolation = 7
        /// More calls wait than the daemon keeps, and nothing was tried; or the token was busy until the deadline (no
        /// memory, no session), or faltered at this call though it works otherwise. The worker is not to blame.
        case overloaded = 8
        /// The same input was in flight when two workers died. Only the daemon's side says so.
        case inputRefused = 9
        /// The audit key or the remembered checkpoint: what is asked for is not to be had from a token that works
        /// otherwise. It is read-only, takes no data objects, shows too many; or the message is no checkpoint.
        case auditRefused = 10
        /// Neither the call nor its repetition was answered in time. Only the daemon's side says so.
        case deadlineExceeded = 11
    }

    public var kind: Kind
    /// One sentence for a person: the PKCS#11 call and its CKR where there was one. Never a stranger's bytes.
    public var message: String
    /// Seconds after which another try makes sense, where that is known. Only the daemon's side says so: it is in no frame.
    public var retryAfter: Int?

    public init(_ kind: Kind, _ message: String, retryAfter: Int? = nil) {
        self.kind = kind
        self.message = message
        self.retryAfter = retryAfter
    }
}
