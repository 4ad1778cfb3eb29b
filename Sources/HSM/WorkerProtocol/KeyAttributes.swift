public import KeyTypes

/// One private key object, as its HSM token describes it at the time of the request (PKCS#11 v2.40 base §4.9, table
/// 32). An attribute that the HSM token does not report is nil.
///
/// Only the HSM token reports these attributes; no evidence outside it proves them.
public struct PrivateKeyAttributes: Sendable, Equatable, Message {
    /// CKA_SENSITIVE: the key's value is not revealed in the clear.
    public var sensitive: Bool?
    /// CKA_EXTRACTABLE: the key may be wrapped, and so leave the HSM token.
    public var extractable: Bool?
    /// CKA_ALWAYS_SENSITIVE: CKA_SENSITIVE has been true ever since the HSM token made the key. False for an imported
    /// key.
    public var alwaysSensitive: Bool?
    /// CKA_NEVER_EXTRACTABLE: CKA_EXTRACTABLE has never been true. False for an imported key.
    public var neverExtractable: Bool?
    /// CKA_LOCAL: generated in the HSM token. NSS softokn reports false for the pairs that it generates.
    public var local: Bool?
    /// CKA_TOKEN: stored by the HSM token.
    public var token: Bool?
    /// CKA_PRIVATE: visible after a login only.
    public var `private`: Bool?
    /// CKA_MODIFIABLE.
    public var modifiable: Bool?
    /// CKA_DERIVE.
    public var derive: Bool?
    /// CKA_DECRYPT.
    public var decrypt: Bool?
    /// CKA_UNWRAP.
    public var unwrap: Bool?
    /// CKA_SIGN.
    public var sign: Bool?
    /// The algorithm, from CKA_KEY_TYPE; nil for any other type.
    public var algorithm: KeyAlgorithm?
    /// The bits of an RSA key's modulus, from CKA_MODULUS; 256 for an EC key whose CKA_EC_PARAMS name P-256; otherwise
    /// nil.
    public var bits: UInt16?

    public init(
        sensitive: Bool? = nil, extractable: Bool? = nil, alwaysSensitive: Bool? = nil, neverExtractable: Bool? = nil,
        local: Bool? = nil, token: Bool? = nil, private: Bool? = nil, modifiable: Bool? = nil, derive: Bool? = nil,
        decrypt: Bool? = nil, unwrap: Bool? = nil, sign: Bool? = nil, algorithm: KeyAlgorithm? = nil,
        bits: UInt16? = nil
    ) {
        self.sensitive = sensitive
        self.extractable = extractable
        self.alwaysSensitive = alwaysSensitive
        self.neverExtractable = neverExtractable
        self.local = local
        self.token = token
        self.private = `private`
        self.modifiable = modifiable
        self.derive = derive
        self.decrypt = decrypt
        self.unwrap = unwrap
        self.sign = sign
        self.algorithm = algorithm
        self.bits = bits
    }

    init() {}

    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError) {
        try coder.flag(&sensitive)
        try coder.flag(&extractable)
        try coder.flag(&alwaysSensitive)
        try coder.flag(&neverExtractable)
        try coder.flag(&local)
        try coder.flag(&token)
        try coder.flag(&`private`)
        try coder.flag(&modifiable)
        try coder.flag(&derive)
        try coder.flag(&decrypt)
        try coder.flag(&unwrap)
        try coder.flag(&sign)
        try coder.optional(&algorithm, or: .ec) { (coder, algorithm) throws(FrameError) in
            try coder.choice(&algorithm)
        }
        try coder.optional(&bits, or: 0) { (coder, bits) throws(FrameError) in try coder.integer(&bits) }
    }
}

extension FieldCoder {
    /// A flag that may be unknown.
    fileprivate mutating func flag(_ value: inout Bool?) throws(FrameError) {
        try optional(&value, or: false) { (coder, value) throws(FrameError) in try coder.boolean(&value) }
    }
}
