public import KeyTypes
internal import StrictJSON

/// The facts about a key in the records of its generation, import or adoption, and of its certificate's import. Records
/// of earlier versions have none of these members.
public struct KeyFacts: Sendable, Equatable {
    /// The source of a key. The raw values are part of the public contract.
    public enum Origin: String, Sendable, CaseIterable {
        /// Imported from a file.
        case imported
        /// Generated in the HSM token.
        case generated
        /// Created in the HSM token by other means, then adopted.
        case adopted
    }

    public var algorithm: KeyAlgorithm
    /// The source of the key; nil if the ledger does not know the key.
    public var origin: Origin?
    /// The end of the certificate's validity; nil if there is no certificate.
    public var certificateEnd: AuditTime?
    /// The certificate's issuer as RFC 4514 writes it, truncated to ``AuditText/maximumLength``.
    public var issuer: AuditText?
    /// The wallet whose payments the key opens. The record names Google Pay only.
    public var wallet: Wallet

    public init(
        algorithm: KeyAlgorithm, origin: Origin?, certificateEnd: AuditTime? = nil, issuer: AuditText? = nil,
        wallet: Wallet = .applePay
    ) {
        self.algorithm = algorithm
        self.origin = origin
        self.certificateEnd = certificateEnd
        self.issuer = issuer
        self.wallet = wallet
    }

    func write(into writer: inout JSONWriter) {
        writer.member("algorithm", algorithm.name)
        writer.member("bits", algorithm.bits)
        writer.member("origin", origin?.rawValue)
        writer.member("certificateEnd", certificateEnd?.text)
        writer.member("issuer", issuer?.text)
        writer.member("wallet", wallet == .applePay ? nil : wallet.rawValue)
    }
}

/// The attributes of one private key object, as its HSM token reported them (PKCS#11 v2.40 base §4.9, table 32). An
/// attribute that the HSM token did not report is nil, and absent from the record.
public struct RecordedKeyAttributes: Sendable, Equatable {
    /// The maximum number of private keys with one CKA_ID in a record.
    static let maximumKeys = 8

    /// `EC` or `RSA`; nil for another type of key.
    public var algorithm: KeyAlgorithm?
    public var bits: Int?
    public var sensitive: Bool?
    public var extractable: Bool?
    public var alwaysSensitive: Bool?
    public var neverExtractable: Bool?
    public var local: Bool?
    public var token: Bool?
    public var `private`: Bool?
    public var modifiable: Bool?
    /// The operations among `derive`, `decrypt`, `unwrap` and `sign` that the HSM token permits.
    public var uses: Set<Use>

    /// The operations of a private key. The raw values are part of the public contract.
    public enum Use: String, Sendable, CaseIterable {
        case derive
        case decrypt
        case unwrap
        case sign
    }

    public init(
        algorithm: KeyAlgorithm? = nil, bits: Int? = nil, sensitive: Bool? = nil, extractable: Bool? = nil,
        alwaysSensitive: Bool? = nil, neverExtractable: Bool? = nil, local: Bool? = nil, token: Bool? = nil,
        private: Bool? = nil, modifiable: Bool? = nil, uses: Set<Use> = []
    ) {
        self.algorithm = algorithm
        self.bits = bits
        self.sensitive = sensitive
        self.extractable = extractable
        self.alwaysSensitive = alwaysSensitive
        self.neverExtractable = neverExtractable
        self.local = local
        self.token = token
        self.private = `private`
        self.modifiable = modifiable
        self.uses = uses
    }

    func write(into writer: inout JSONWriter) {
        writer.member("algorithm", algorithm?.name)
        writer.member("bits", bits)
        writer.member("sensitive", sensitive)
        writer.member("extractable", extractable)
        writer.member("alwaysSensitive", alwaysSensitive)
        writer.member("neverExtractable", neverExtractable)
        writer.member("local", local)
        writer.member("stored", token)
        writer.member("private", `private`)
        writer.member("modifiable", modifiable)
        writer.member("uses", Use.allCases.filter(uses.contains).map(\.rawValue))
    }
}

/// An HSM token's description of itself (PKCS#11 v2.40 base §3.2, CK_TOKEN_INFO and CK_INFO), and the tiers in which it
/// passed the self-tests.
public struct RecordedHSMToken: Sendable, Equatable {
    /// The maximum number of sentences in a record.
    static let maximumShortcomings = 8

    public var label: AuditText
    public var serialNumber: AuditText
    public var manufacturer: AuditText
    public var model: AuditText
    public var hardwareVersion: AuditText
    public var firmwareVersion: AuditText
    /// The PKCS#11 library's description and version.
    public var library: AuditText
    /// The strongest tier in which the HSM token decrypts EC_v1; nil if it does not. `tierRSAv1` is the same for RSA_v1,
    /// and `tierECv2` for Google Pay.
    public var tierECv1: AuditProtection?
    public var tierRSAv1: AuditProtection?
    public var tierECv2: AuditProtection?
    /// A sentence for each operation that failed its self-test.
    public var shortcomings: [AuditText]

    public init(
        label: AuditText, serialNumber: AuditText, manufacturer: AuditText, model: AuditText,
        hardwareVersion: AuditText, firmwareVersion: AuditText, library: AuditText, tierECv1: AuditProtection?,
        tierRSAv1: AuditProtection?, tierECv2: AuditProtection? = nil, shortcomings: [AuditText]
    ) {
        self.label = label
        self.serialNumber = serialNumber
        self.manufacturer = manufacturer
        self.model = model
        self.hardwareVersion = hardwareVersion
        self.firmwareVersion = firmwareVersion
        self.library = library
        self.tierECv1 = tierECv1
        self.tierRSAv1 = tierRSAv1
        self.tierECv2 = tierECv2
        self.shortcomings = shortcomings
    }

    func write(into writer: inout JSONWriter) {
        for (name, text) in [
            ("label", label), ("serialNumber", serialNumber), ("manufacturer", manufacturer), ("model", model),
            ("hardwareVersion", hardwareVersion), ("firmwareVersion", firmwareVersion), ("library", library),
        ] where !text.text.isEmpty { writer.member(name, text.text) }
        writer.member("tierECv1", tierECv1?.rawValue)
        writer.member("tierRSAv1", tierRSAv1?.rawValue)
        writer.member("tierECv2", tierECv2?.rawValue)
        if !shortcomings.isEmpty {
            writer.member("shortcomings", shortcomings.prefix(Self.maximumShortcomings).map(\.text))
        }
    }
}
