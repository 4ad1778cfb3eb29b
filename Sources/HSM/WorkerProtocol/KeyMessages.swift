public import KeyTypes

/// One private key object of the HSM token, with its public key and certificates.
public struct KeyDescription: Sendable, Equatable, Message {
    /// The private key's CKA_ID in the HSM token. It should be the publicKeyHash, but is only a hint: the hash is
    /// computed again from the public key and compared.
    public var identifier: [UInt8] = []
    /// CKA_LABEL, which should be the merchant identifier. It is only a hint, since a person with the PIN can change
    /// it.
    public var label: String = ""
    public var algorithm: KeyAlgorithm = .ec
    /// The use that the private key's attributes permit. A key that can only sign is `identity` if it is RSA, and
    /// `service` if it is EC. A key of either wallet is `processing`.
    public var use: KeyUse = .processing
    /// SubjectPublicKeyInfo in DER, built from the HSM token's public key; empty if there is none.
    public var subjectPublicKeyInfo: [UInt8] = []
    /// CKO_CERTIFICATE objects with the same CKA_ID, DER, in the HSM token's order.
    public var certificates: [[UInt8]] = []
    /// CKA_SENSITIVE is true and CKA_EXTRACTABLE false.
    public var isProtected: Bool = false
    /// The reason why the key must not be used, as a sentence for operators: for example, the identifier is not the
    /// hash, or the pair failed its test. nil if the key may be used.
    public var inconsistency: String?

    public init(
        identifier: [UInt8], label: String, algorithm: KeyAlgorithm, use: KeyUse = .processing,
        subjectPublicKeyInfo: [UInt8], certificates: [[UInt8]], isProtected: Bool, inconsistency: String?
    ) {
        self.identifier = identifier
        self.label = label
        self.algorithm = algorithm
        self.use = use
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
        self.certificates = certificates
        self.isProtected = isProtected
        self.inconsistency = inconsistency
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&identifier, atMost: FieldBound.identifier)
        try coder.text(&label, atMost: FieldBound.name)
        try coder.choice(&algorithm)
        try coder.choice(&use)
        try coder.octets(&subjectPublicKeyInfo, atMost: FieldBound.subjectPublicKeyInfo)
        try coder.octetStrings(
            &certificates, atMost: FieldBound.certificatesPerKey, each: FieldBound.certificate)
        try coder.boolean(&isProtected)
        try coder.optional(&inconsistency, or: "") { (coder, text) throws(FrameError) in try coder.sentence(&text) }
    }
}

/// A private key to be imported into the HSM token, sealed so that only the worker can read it.
public struct PrivateKeyImport: Sendable, Equatable, Message {
    /// CKA_LABEL: the merchant identifier, or a service key's key id.
    public var merchantIdentifier: String = ""
    /// The use, from the certificate's kind, or `service` or `googlePay`.
    public var use: KeyUse = .processing
    /// The certificate in DER. Its public key must be the private key's. Empty for a service key and for a Google Pay
    /// key.
    public var certificate: [UInt8] = []
    /// The SubjectPublicKeyInfo in DER of a key without a certificate; empty for a key with one.
    public var publicKey: [UInt8] = []
    /// The encapsulated key of HPKE (RFC 9180), 65 bytes, for the recipient ``HSMTokenDescription/importKey``. HPKE is
    /// used in base mode with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM.
    public var encapsulatedKey: [UInt8] = []
    /// The private key, a PKCS#8 PrivateKeyInfo in DER (RFC 5958), sealed with HPKE. Its `info` is "paytokend key
    /// import v1", and its associated data is ``associatedData``. Both ends use KeySealing.
    public var sealedPrivateKey: [UInt8] = []

    public init(
        merchantIdentifier: String, use: KeyUse = .processing, certificate: [UInt8] = [], publicKey: [UInt8] = [],
        encapsulatedKey: [UInt8], sealedPrivateKey: [UInt8]
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.certificate = certificate
        self.publicKey = publicKey
        self.encapsulatedKey = encapsulatedKey
        self.sealedPrivateKey = sealedPrivateKey
    }

    init() {}

    /// The bytes with which the private key is sealed: the certificate, or the public key of a key without one.
    public var associatedData: [UInt8] { certificate.isEmpty ? publicKey : certificate }

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.text(&merchantIdentifier, atMost: FieldBound.name)
        try coder.choice(&use)
        try coder.octets(&certificate, atMost: FieldBound.certificate)
        try coder.octets(&publicKey, atMost: FieldBound.subjectPublicKeyInfo)
        try coder.octets(&encapsulatedKey, atMost: FieldBound.keyMaterial)
        try coder.octets(&sealedPrivateKey, atMost: FieldBound.sealedPrivateKey)
    }
}

/// A certificate for a private key that the HSM token already has.
public struct CertificateToStore: Sendable, Equatable, Message {
    /// 32 bytes: the CKA_ID of the private key that the certificate belongs to.
    public var publicKeyHash: [UInt8] = []
    /// CKA_LABEL: the merchant identifier.
    public var merchantIdentifier: String = ""
    /// The certificate in DER.
    public var certificate: [UInt8] = []

    public init(publicKeyHash: [UInt8], merchantIdentifier: String, certificate: [UInt8]) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.certificate = certificate
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&publicKeyHash, atMost: FieldBound.identifier)
        try coder.text(&merchantIdentifier, atMost: FieldBound.name)
        try coder.octets(&certificate, atMost: FieldBound.certificate)
    }
}

/// A merchant's key pair to be made inside the HSM token: sensitive, non-extractable, for one use only and for the
/// signature of its own certificate request.
///
/// Its CKA_ID is the publicKeyHash, which is known only afterwards. Until then it is ``unfinishedIdentifier`` followed
/// by random bytes, so that an interrupted generation is recognised and finished instead of repeated.
public struct KeyGeneration: Sendable, Equatable, Message {
    /// CKA_LABEL: the merchant identifier.
    public var merchantIdentifier: String = ""
    public var algorithm: KeyAlgorithm = .ec
    public var use: KeyUse = .processing
    /// True to finish only a pair that an earlier generation for this merchant left unfinished. The worker then never
    /// generates a pair. It answers `keyNotFound` if no unfinished pair exists, or if the pair cannot sign its
    /// certificate request. The daemon sets this after a worker ended during a generation, to find out the result.
    public var onlyFinishes: Bool = false

    public init(
        merchantIdentifier: String, algorithm: KeyAlgorithm, use: KeyUse = .processing, onlyFinishes: Bool = false
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.algorithm = algorithm
        self.use = use
        self.onlyFinishes = onlyFinishes
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.text(&merchantIdentifier, atMost: FieldBound.name)
        try coder.choice(&algorithm)
        try coder.choice(&use)
        try coder.boolean(&onlyFinishes)
    }

    /// The beginning of the CKA_ID of a pair that does not yet have its final one. No publicKeyHash begins this way by
    /// chance.
    public static let unfinishedIdentifier: [UInt8] = Array("paytokend unfinished ".utf8)

    /// The beginning of an unfinished identity key's CKA_ID. For a processing key, random bytes follow
    /// ``unfinishedIdentifier`` directly. Earlier versions, which had no identity keys, wrote the same form, so a pair
    /// that they left unfinished is a processing key.
    private static let unfinishedIdentityIdentifier = unfinishedIdentifier + Array("identity ".utf8)
    private static let unfinishedGooglePayIdentifier = unfinishedIdentifier + Array("google-pay ".utf8)

    /// Returns the unfinished CKA_ID of a new pair: the beginning for its use, followed by random bytes.
    public static func makeUnfinishedIdentifier(for use: KeyUse) -> [UInt8] {
        let beginning =
            switch use {
            case .identity: unfinishedIdentityIdentifier
            case .googlePay: unfinishedGooglePayIdentifier
            case .processing, .service: unfinishedIdentifier
            }
        return beginning + (0..<8).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// The use of an unfinished pair, from its CKA_ID; nil if the CKA_ID is not that of an unfinished pair.
    public static func use(ofUnfinished identifier: [UInt8]) -> KeyUse? {
        guard identifier.starts(with: unfinishedIdentifier) else { return nil }
        if identifier.starts(with: unfinishedIdentityIdentifier) { return .identity }
        return identifier.starts(with: unfinishedGooglePayIdentifier) ? .googlePay : .processing
    }
}

/// A PKCS#10 request to be signed by the merchant key that it is for.
public struct RequestSigning: Sendable, Equatable, Message {
    /// The key's CKA_ID, 32 bytes.
    public var publicKeyHash: [UInt8] = []
    /// A CertificationRequestInfo in DER (RFC 2986 §4.1), at most 8 KiB, with the public key of the key that signs it.
    /// The worker refuses all other input, so a merchant key signs nothing else by this request.
    public var information: [UInt8] = []

    public init(publicKeyHash: [UInt8], information: [UInt8]) {
        self.publicKeyHash = publicKeyHash
        self.information = information
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.octets(&publicKeyHash, atMost: FieldBound.identifier)
        try coder.octets(&information, atMost: FieldBound.requestInformation)
    }
}
