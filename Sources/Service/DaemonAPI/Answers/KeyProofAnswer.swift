/// The 200 answer of `POST /v1/keys/{key}/proofs`.
public struct KeyProofAnswer: Codable, Sendable, Equatable {
    /// Base64 of the key's 32-byte publicKeyHash.
    public var publicKeyHash: String
    public var merchantIdentifier: String
    /// SHA-256 of the certificate for which the message was made, in lower-case hex; null if the key has none yet.
    @Nullable public var certificateSha256: String?
    /// True if every HSM token that shows the key proved it.
    public var proved: Bool
    /// One element for each HSM token that shows the key, in the configuration's order.
    public var items: [Item]
    /// The configured names of the HSM tokens that do not show the key.
    public var withoutKey: [String]

    /// The result in one HSM token.
    public struct Item: Codable, Sendable, Equatable {
        /// The HSM token's configured name.
        public var token: String
        public var proved: Bool
        /// The protection tier in which the HSM token opened the message: `A`, `B` or `C`; null for an identity key, and
        /// if the message was not opened.
        @Nullable public var tier: String?
        /// The code of the refusal, as in the audit record; null if the key was proved.
        @Nullable public var code: String?
        /// The reason in one sentence; null if the key was proved.
        @Nullable public var message: String?
        public var audit: AuditReference?

        public init(
            token: String, proved: Bool, tier: String?, code: String?, message: String?, audit: AuditReference?
        ) {
            self.token = token
            self.proved = proved
            self.tier = tier
            self.code = code
            self.message = message
            self.audit = audit
        }
    }

    public init(
        publicKeyHash: String, merchantIdentifier: String, certificateSha256: String?, proved: Bool, items: [Item],
        withoutKey: [String]
    ) {
        self.publicKeyHash = publicKeyHash
        self.merchantIdentifier = merchantIdentifier
        self.certificateSha256 = certificateSha256
        self.proved = proved
        self.items = items
        self.withoutKey = withoutKey
    }
}
