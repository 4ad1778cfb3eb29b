public import KeyTypes

/// Everything that a worker needs to open its one HSM token. It does not contain the PIN, only the path of the PIN's
/// file.
public struct HSMTokenOpening: Sendable, Equatable, Message {
    /// The sender's ``WorkerProtocolVersion/current``; any other is refused.
    public var protocolVersion: UInt16 = WorkerProtocolVersion.current
    /// The daemon's version; a worker of a different version refuses to serve.
    public var programVersion: String = ""
    /// Absolute path of the PKCS#11 library.
    public var modulePath: String = ""
    /// The RFC 7512 URI that names the HSM token by label and serial number.
    public var tokenURI: String = ""
    /// Absolute path of the file with the user PIN.
    public var pinFile: String = ""
    /// The number of working sessions, without the anchor session that holds the login.
    public var sessions: UInt16 = 0
    /// Library-specific initialisation string (NSS); empty for none.
    public var initializationString: String = ""
    /// True to allow tier C, in which a transaction's symmetric key is read into the worker's memory.
    public var allowExtractableSecret: Bool = false
    /// The time that the daemon waits for one answer, in milliseconds, before it ends the worker. The worker waits for
    /// a busy HSM token within that time.
    public var callTimeout: UInt32 = 10_000
    /// Absolute path of the file that keeps, as keyed digests, the PINs that this HSM token has refused; it is created
    /// if it does not exist. Empty for no such file: refusals are then forgotten when the worker ends.
    public var refusedLogins: String = ""
    /// Names of system calls that the worker gives up before it loads the library; empty for none.
    public var deniedSystemCalls: [String] = []
    /// The issuer and the identifier of the key of Apple's API, which become a JSON Web Token's `iss` and `kid`. Empty
    /// if the configuration names no such key: the worker then signs no JSON Web Token.
    public var portalIssuer: String = ""
    public var portalKeyId: String = ""

    public init(
        protocolVersion: UInt16 = WorkerProtocolVersion.current, programVersion: String, modulePath: String,
        tokenURI: String, pinFile: String, sessions: UInt16, initializationString: String,
        allowExtractableSecret: Bool, callTimeout: UInt32 = 10_000, refusedLogins: String = "",
        deniedSystemCalls: [String] = [], portalIssuer: String = "", portalKeyId: String = ""
    ) {
        self.protocolVersion = protocolVersion
        self.programVersion = programVersion
        self.modulePath = modulePath
        self.tokenURI = tokenURI
        self.pinFile = pinFile
        self.sessions = sessions
        self.initializationString = initializationString
        self.allowExtractableSecret = allowExtractableSecret
        self.callTimeout = callTimeout
        self.refusedLogins = refusedLogins
        self.deniedSystemCalls = deniedSystemCalls
        self.portalIssuer = portalIssuer
        self.portalKeyId = portalKeyId
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.integer(&protocolVersion)
        try coder.text(&programVersion, atMost: FieldBound.name)
        try coder.text(&modulePath, atMost: FieldBound.path)
        try coder.text(&tokenURI, atMost: FieldBound.path)
        try coder.text(&pinFile, atMost: FieldBound.path)
        try coder.integer(&sessions)
        try coder.text(&initializationString, atMost: FieldBound.path)
        try coder.boolean(&allowExtractableSecret)
        try coder.integer(&callTimeout)
        try coder.text(&refusedLogins, atMost: FieldBound.path)
        try coder.list(&deniedSystemCalls, atMost: FieldBound.deniedSystemCalls, of: "") {
            (coder, name) throws(FrameError) in
            try coder.text(&name, atMost: FieldBound.name)
        }
        try coder.text(&portalIssuer, atMost: FieldBound.name)
        try coder.text(&portalKeyId, atMost: FieldBound.name)
    }
}

public enum WorkerProtocolVersion {
    public static let current: UInt16 = 14
}

/// The HSM token that a worker has opened, and its capabilities.
public struct HSMTokenDescription: Sendable, Equatable, Message {
    public var label: String = ""
    public var serialNumber: String = ""
    public var manufacturer: String = ""
    public var model: String = ""
    /// CK_TOKEN_INFO's hardwareVersion, as `major.minor` in decimals.
    public var hardwareVersion: String = ""
    /// CK_TOKEN_INFO's firmwareVersion.
    public var firmwareVersion: String = ""
    /// The library's description and version, for operators.
    public var library: String = ""
    public var sessions: UInt16 = 0
    /// The strongest tier for EC_v1 that passed its known-answer test; nil if the HSM token cannot decrypt such payment
    /// tokens. `tierRSAv1` is the same for RSA_v1.
    public var tierECv1: ProtectionTier?
    public var tierRSAv1: ProtectionTier?
    /// The strongest tier for Google Pay's ECv2 that passed its known-answer test; nil if the HSM token cannot decrypt
    /// such payment tokens.
    public var tierECv2: ProtectionTier?
    /// A sentence with the reason why ``tierECv2`` is nil; empty if it is not. It is kept apart from ``shortcomings``,
    /// since it concerns only merchants with Google Pay.
    public var shortcomingECv2: String = ""
    /// The signatures for TLS handshakes.
    public var tlsSignatures: TLSSignatures = TLSSignatures()
    /// A sentence with the reason for each version of payment tokens that cannot be decrypted, and for each TLS
    /// signature that cannot be made.
    public var shortcomings: [String] = []
    /// True if a version of payment tokens has no tier because only tier C would work and `allow_extractable_secret` is
    /// false.
    public var needsExtractableSecret: Bool = false
    /// The names of the stored key pairs that the self-tests used; empty if the HSM token makes session key pairs.
    public var testKeys: [String] = []
    /// The number of these that were made at this opening.
    public var testKeysMade: UInt8 = 0
    /// The worker's public key for imports, made at each start: P-256, uncompressed point, 65 bytes.
    public var importKey: [UInt8] = []
    /// The bytes of the worker's secret memory that are not locked, because the limit on locked memory is used up; at
    /// most ``FieldBound/unlockedSecrets``.
    public var unlockedSecrets: UInt32 = 0

    public init(
        label: String, serialNumber: String, manufacturer: String, model: String, hardwareVersion: String = "",
        firmwareVersion: String = "", library: String, sessions: UInt16, tierECv1: ProtectionTier?,
        tierRSAv1: ProtectionTier?, tierECv2: ProtectionTier? = nil, shortcomingECv2: String = "",
        tlsSignatures: TLSSignatures = TLSSignatures(), shortcomings: [String], needsExtractableSecret: Bool = false,
        testKeys: [String] = [], testKeysMade: UInt8 = 0,
        importKey: [UInt8], unlockedSecrets: UInt32 = 0
    ) {
        self.label = label
        self.serialNumber = serialNumber
        self.manufacturer = manufacturer
        self.model = model
        self.hardwareVersion = hardwareVersion
        self.firmwareVersion = firmwareVersion
        self.library = library
        self.sessions = sessions
        self.tierECv1 = tierECv1
        self.tierRSAv1 = tierRSAv1
        self.tierECv2 = tierECv2
        self.shortcomingECv2 = shortcomingECv2
        self.tlsSignatures = tlsSignatures
        self.shortcomings = shortcomings
        self.needsExtractableSecret = needsExtractableSecret
        self.testKeys = testKeys
        self.testKeysMade = testKeysMade
        self.importKey = importKey
        self.unlockedSecrets = unlockedSecrets
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.text(&label, atMost: FieldBound.name)
        try coder.text(&serialNumber, atMost: FieldBound.name)
        try coder.text(&manufacturer, atMost: FieldBound.name)
        try coder.text(&model, atMost: FieldBound.name)
        try coder.text(&hardwareVersion, atMost: FieldBound.name)
        try coder.text(&firmwareVersion, atMost: FieldBound.name)
        try coder.text(&library, atMost: FieldBound.name)
        try coder.integer(&sessions)
        try coder.optional(&tierECv1, or: .c) { (coder, tier) throws(FrameError) in try tier.field(&coder) }
        try coder.optional(&tierRSAv1, or: .c) { (coder, tier) throws(FrameError) in try tier.field(&coder) }
        try tlsSignatures.fields(&coder)
        try coder.list(&shortcomings, atMost: FieldBound.shortcomings, of: "") { (coder, text) throws(FrameError) in
            try coder.sentence(&text)
        }
        try coder.boolean(&needsExtractableSecret)
        try coder.octets(&importKey, atMost: FieldBound.keyMaterial)
        try coder.integer(&unlockedSecrets, atMost: FieldBound.unlockedSecrets)
        try coder.list(&testKeys, atMost: FieldBound.testKeys, of: "") { (coder, name) throws(FrameError) in
            try coder.text(&name, atMost: FieldBound.name)
        }
        try coder.integer(&testKeysMade)
        try coder.optional(&tierECv2, or: .c) { (coder, tier) throws(FrameError) in try tier.field(&coder) }
        try coder.sentence(&shortcomingECv2)
    }
}

extension ProtectionTier {
    mutating func field<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        var octet: UInt8 =
            switch self {
            case .a: 1
            case .b: 2
            case .c: 3
            }
        try coder.integer(&octet)
        switch octet {
        case 1: self = .a
        case 2: self = .b
        case 3: self = .c
        default: throw .invalidValue
        }
    }
}

/// The key restoration that a payment token requires: one of the two that Apple defines, or Google's.
public enum RestorationScheme: UInt8, Sendable, Equatable, CaseIterable {
    /// ECDH on P-256, one-step KDF, AES-256-GCM.
    case ecV1 = 1
    /// RSA-OAEP with SHA-256, AES-128-GCM.
    case rsaV1 = 2
    /// Google Pay's ECv2: ECDH on P-256, HKDF with SHA-256, HMAC-SHA256 over the ciphertext, AES-256-CTR.
    case ecV2 = 3
}

extension RestorationScheme {
    /// The scheme with which the wallet of a key that restores encrypts to it.
    public init(of use: KeyUse, _ algorithm: KeyAlgorithm) {
        self = if use == .googlePay { .ecV2 } else { algorithm == .ec ? .ecV1 : .rsaV1 }
    }
}

/// One payment token's data to be opened.
public struct Decryption: Sendable, Equatable, Message {
    /// 32 bytes, SHA-256 of the merchant key's SubjectPublicKeyInfo: the private key's CKA_ID.
    public var publicKeyHash: [UInt8] = []
    public var scheme: RestorationScheme = .ecV1
    /// EC_v1 and ECv2: the ephemeral public key as an uncompressed point, 65 bytes (SEC 1 §2.3.3). RSA_v1: the wrapped
    /// key.
    public var keyMaterial: [UInt8] = []
    /// EC_v1: OtherInfo of the one-step KDF (SP 800-56A §5.8.2.1), without the counter. RSA_v1 and ECv2: empty.
    public var otherInfo: [UInt8] = []
    /// Ciphertext with its tag at the end: 16 bytes of GCM, or 32 of ECv2's HMAC.
    public var ciphertext: [UInt8] = []

    public init(
        publicKeyHash: [UInt8], scheme: RestorationScheme, keyMaterial: [UInt8], otherInfo: [UInt8],
        ciphertext: [UInt8]
    ) {
        self.publicKeyHash = publicKeyHash
        self.scheme = scheme
        self.keyMaterial = keyMaterial
        self.otherInfo = otherInfo
        self.ciphertext = ciphertext
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&publicKeyHash, atMost: FieldBound.identifier)
        try coder.choice(&scheme)
        try coder.octets(&keyMaterial, atMost: FieldBound.keyMaterial)
        try coder.octets(&otherInfo, atMost: FieldBound.otherInfo)
        try coder.octets(&ciphertext, atMost: FieldBound.paymentData)
    }
}
