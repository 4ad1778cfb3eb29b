/// The attributes of a key's private half in one HSM token: an element of ``KeySummary/attributes``. The HSM token itself
/// reports them (PKCS#11 v2.40 base §4.9, table 32), and nothing outside it can confirm them.
public struct KeyAttributes: Codable, Sendable, Equatable {
    /// The HSM token's name in the configuration.
    public var token: String
    /// The reason why ``values`` is nil, in one sentence; nil if the HSM token answered.
    public var message: String?
    /// The attributes. Nil if the HSM token is unavailable; the JSON then has `"away": true` instead of the attributes.
    public var values: Values?

    public struct Values: Codable, Sendable, Equatable {
        /// CKA_SENSITIVE. This and the other flags are null if the HSM token does not return them.
        @Nullable public var sensitive: Bool?
        /// CKA_EXTRACTABLE.
        @Nullable public var extractable: Bool?
        /// CKA_ALWAYS_SENSITIVE; false for a key that was imported.
        @Nullable public var alwaysSensitive: Bool?
        /// CKA_NEVER_EXTRACTABLE; false for a key that was imported.
        @Nullable public var neverExtractable: Bool?
        /// CKA_LOCAL; true for a key that was generated in the HSM token.
        @Nullable public var local: Bool?
        /// CKA_PRIVATE.
        @Nullable public var `private`: Bool?
        /// CKA_MODIFIABLE.
        @Nullable public var modifiable: Bool?
        /// The operations that CKA_DERIVE, CKA_DECRYPT, CKA_UNWRAP and CKA_SIGN permit: `derive`, `decrypt`, `unwrap`,
        /// `sign`.
        public var uses: [String]
        /// The curve `P-256`, or `RSA-` followed by the modulus length in bits.
        @Nullable public var strength: String?
        /// A sentence for each attribute that does not have its required value.
        public var shortcomings: [String]

        public init(
            sensitive: Bool? = nil, extractable: Bool? = nil, alwaysSensitive: Bool? = nil,
            neverExtractable: Bool? = nil, local: Bool? = nil, private: Bool? = nil, modifiable: Bool? = nil,
            uses: [String] = [], strength: String? = nil, shortcomings: [String] = []
        ) {
            self.sensitive = sensitive
            self.extractable = extractable
            self.alwaysSensitive = alwaysSensitive
            self.neverExtractable = neverExtractable
            self.local = local
            self.private = `private`
            self.modifiable = modifiable
            self.uses = uses
            self.strength = strength
            self.shortcomings = shortcomings
        }
    }

    public init(token: String, _ values: Values) {
        self.token = token
        self.values = values
    }

    /// Creates the entry of an HSM token that is unavailable.
    public init(token: String, message: String) {
        self.token = token
        self.message = message
    }

    private enum Members: String, CodingKey {
        case token
        case away
        case message
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: Members.self)
        token = try members.decode(String.self, forKey: .token)
        message = try members.decodeIfPresent(String.self, forKey: .message)
        let isAway = try members.decodeIfPresent(Bool.self, forKey: .away) ?? false
        values = isAway ? nil : try Values(from: decoder)
    }

    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: Members.self)
        try members.encode(token, forKey: .token)
        try members.encodeIfPresent(message, forKey: .message)
        if let values {
            try values.encode(to: encoder)
        } else {
            try members.encode(true, forKey: .away)
        }
    }
}
