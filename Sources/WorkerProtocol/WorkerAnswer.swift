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

/// Answers have the types 65 to 127.
extension WorkerAnswer {
    private enum FrameType: UInt8 {
        case opened = 65
        case keys = 66
        case plaintext = 67
        case done = 68
        case failed = 69
        case auditKeys = 70
        case auditKey = 71
        case signature = 72
        case heads = 73
        case generatedKey = 74
        case requestSignature = 75
        case keyPage = 76
    }

    /// The answer as one frame with its length prefix.
    /// - Throws: ``FrameError/fieldTooLong`` or ``FrameError/length(_:)`` when a field exceeds its bound.
    public func encoded(identifier: UInt64) throws(FrameError) -> [UInt8] {
        var writer: FieldWriter
        switch self {
        case .opened(let description):
            writer = FieldWriter(type: FrameType.opened.rawValue, identifier: identifier)
            try description.write(to: &writer)
        case .keys(let keys):
            writer = FieldWriter(type: FrameType.keys.rawValue, identifier: identifier)
            try writer.list(keys, atMost: FieldBound.keys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .keyPage(let keys, let listing):
            writer = FieldWriter(type: FrameType.keyPage.rawValue, identifier: identifier)
            writer.integer(listing)
            try writer.list(keys, atMost: FieldBound.keys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .plaintext(let plaintext, let tier, let unlockedSecrets):
            writer = FieldWriter(
                type: FrameType.plaintext.rawValue, identifier: identifier, capacity: plaintext.count + 12)
            try writer.octets(plaintext, atMost: FieldBound.paymentData)
            writer.integer(tier.octet)
            try writer.unlockedSecrets(unlockedSecrets)
        case .done:
            writer = FieldWriter(type: FrameType.done.rawValue, identifier: identifier)
        case .failed(let failure):
            writer = FieldWriter(type: FrameType.failed.rawValue, identifier: identifier)
            writer.integer(failure.kind.rawValue)
            try writer.sentence(failure.message)
        case .auditKeys(let keys):
            writer = FieldWriter(type: FrameType.auditKeys.rawValue, identifier: identifier)
            try writer.list(keys, atMost: FieldBound.auditKeys) { (writer, key) throws(FrameError) in
                try key.write(to: &writer)
            }
        case .auditKey(let key):
            writer = FieldWriter(type: FrameType.auditKey.rawValue, identifier: identifier)
            try key.write(to: &writer)
        case .signature(let der):
            writer = FieldWriter(type: FrameType.signature.rawValue, identifier: identifier)
            try writer.octets(der, atMost: FieldBound.signature)
        case .heads(let lines):
            writer = FieldWriter(type: FrameType.heads.rawValue, identifier: identifier)
            try writer.list(lines, atMost: FieldBound.rememberedHeads) { (writer, line) throws(FrameError) in
                try writer.octets(line, atMost: FieldBound.checkpoint)
            }
        case .generatedKey(let key):
            writer = FieldWriter(type: FrameType.generatedKey.rawValue, identifier: identifier)
            try key.write(to: &writer)
        case .requestSignature(let signature):
            writer = FieldWriter(type: FrameType.requestSignature.rawValue, identifier: identifier)
            try writer.octets(signature, atMost: FieldBound.requestSignature)
        }
        return try writer.frame(atMost: FieldBound.answerFrame)
    }

    /// Reads a frame that claims to be an answer.
    public init(_ frame: Frame) throws(FrameError) {
        guard let type = FrameType(rawValue: frame.type) else { throw .unknownType(frame.type) }
        var reader = FieldReader(frame.fields)
        switch type {
        case .opened:
            self = .opened(try HSMTokenDescription(from: &reader))
        case .keys:
            self = .keys(
                try reader.list(atMost: FieldBound.keys) { (reader) throws(FrameError) in
                    try KeyDescription(from: &reader)
                })
        case .keyPage:
            let listing: UInt64 = try reader.integer()
            self = .keyPage(
                try reader.list(atMost: FieldBound.keys) { (reader) throws(FrameError) in
                    try KeyDescription(from: &reader)
                }, listing: listing)
        case .plaintext:
            let plaintext = try reader.octets(atMost: FieldBound.paymentData)
            let tier = try ProtectionTier(from: &reader)
            self = .plaintext(plaintext, tier: tier, unlockedSecrets: try reader.unlockedSecrets())
        case .done:
            self = .done
        case .failed:
            guard let kind = WorkerFailure.Kind(rawValue: try reader.integer()) else { throw .invalidValue }
            self = .failed(WorkerFailure(kind, try reader.text(atMost: FieldBound.sentence)))
        case .auditKeys:
            self = .auditKeys(
                try reader.list(atMost: FieldBound.auditKeys) { (reader) throws(FrameError) in
                    try AuditKeyDescription(from: &reader)
                })
        case .auditKey:
            self = .auditKey(try AuditKeyDescription(from: &reader))
        case .generatedKey:
            self = .generatedKey(try KeyDescription(from: &reader))
        case .requestSignature:
            self = .requestSignature(try reader.octets(atMost: FieldBound.requestSignature))
        case .signature:
            self = .signature(try reader.octets(atMost: FieldBound.signature))
        case .heads:
            self = .heads(
                try reader.list(atMost: FieldBound.rememberedHeads) { (reader) throws(FrameError) in
                    try reader.octets(atMost: FieldBound.checkpoint)
                })
        }
        try reader.end()
    }
}

extension ProtectionTier {
    fileprivate var octet: UInt8 {
        switch self {
        case .a: 1
        case .b: 2
        case .c: 3
        }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let octet: UInt8 = try reader.integer()
        guard let tier = Self.allCases.first(where: { $0.octet == octet }) else { throw .invalidValue }
        self = tier
    }
}

extension HSMTokenDescription {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.text(label, atMost: FieldBound.name)
        try writer.text(serialNumber, atMost: FieldBound.name)
        try writer.text(manufacturer, atMost: FieldBound.name)
        try writer.text(model, atMost: FieldBound.name)
        try writer.text(library, atMost: FieldBound.name)
        writer.integer(sessions)
        for tier in [tierECv1, tierRSAv1] {
            try writer.optional(tier) { (writer, tier) throws(FrameError) in writer.integer(tier.octet) }
        }
        try writer.list(shortcomings, atMost: FieldBound.shortcomings) { (writer, text) throws(FrameError) in
            try writer.sentence(text)
        }
        try writer.octets(importKey, atMost: FieldBound.keyMaterial)
        try writer.unlockedSecrets(unlockedSecrets)
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        self.init(
            label: try reader.text(atMost: FieldBound.name),
            serialNumber: try reader.text(atMost: FieldBound.name),
            manufacturer: try reader.text(atMost: FieldBound.name),
            model: try reader.text(atMost: FieldBound.name),
            library: try reader.text(atMost: FieldBound.name),
            sessions: try reader.integer(),
            tierECv1: try reader.optional { (reader) throws(FrameError) in try ProtectionTier(from: &reader) },
            tierRSAv1: try reader.optional { (reader) throws(FrameError) in try ProtectionTier(from: &reader) },
            shortcomings: try reader.list(atMost: FieldBound.shortcomings) { (reader) throws(FrameError) in
                try reader.text(atMost: FieldBound.sentence)
            },
            importKey: try reader.octets(atMost: FieldBound.keyMaterial),
            unlockedSecrets: try reader.unlockedSecrets())
    }
}

extension FieldWriter {
    fileprivate mutating func unlockedSecrets(_ count: UInt32) throws(FrameError) {
        guard count <= FieldBound.unlockedSecrets else { throw .invalidValue }
        integer(count)
    }
}

extension FieldReader {
    fileprivate mutating func unlockedSecrets() throws(FrameError) -> UInt32 {
        let count: UInt32 = try integer()
        guard count <= FieldBound.unlockedSecrets else { throw .invalidValue }
        return count
    }
}

extension KeyDescription {
    fileprivate func write(to writer: inout FieldWriter) throws(FrameError) {
        try writer.octets(identifier, atMost: FieldBound.identifier)
        try writer.text(label, atMost: FieldBound.name)
        writer.integer(algorithm.rawValue)
        try writer.octets(subjectPublicKeyInfo, atMost: FieldBound.subjectPublicKeyInfo)
        try writer.list(certificates, atMost: FieldBound.certificatesPerKey) { (writer, der) throws(FrameError) in
            try writer.octets(der, atMost: FieldBound.certificate)
        }
        writer.boolean(isProtected)
        try writer.optional(inconsistency) { (writer, text) throws(FrameError) in try writer.sentence(text) }
    }

    fileprivate init(from reader: inout FieldReader) throws(FrameError) {
        let identifier = try reader.octets(atMost: FieldBound.identifier)
        let label = try reader.text(atMost: FieldBound.name)
        guard let algorithm = KeyAlgorithm(rawValue: try reader.integer()) else { throw .invalidValue }
        self.init(
            identifier: identifier, label: label, algorithm: algorithm,
            subjectPublicKeyInfo: try reader.octets(atMost: FieldBound.subjectPublicKeyInfo),
            certificates: try reader.list(atMost: FieldBound.certificatesPerKey) { (reader) throws(FrameError) in
                try reader.octets(atMost: FieldBound.certificate)
            },
            isProtected: try reader.boolean(),
            inconsistency: try reader.optional { (reader) throws(FrameError) in
                try reader.text(atMost: FieldBound.sentence)
            })
    }
}
