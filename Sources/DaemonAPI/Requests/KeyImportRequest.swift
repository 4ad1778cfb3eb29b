/// The body of `POST /v1/keys/import`.
///
/// Private keys cross the daemon sealed (HPKE, RFC 9180) to each token's worker, whose `importKey` the status names:
/// the daemon never sees one.
public struct KeyImportRequest: Codable, Sendable, Equatable {
    public struct SealedKey: Codable, Sendable, Equatable {
        /// The token's name in the configuration.
        public var token: String
        /// Base64 of the HPKE encapsulated key, 65 bytes.
        public var encapsulatedKey: String
        /// Base64 of the sealed PKCS#8 PrivateKeyInfo.
        public var sealedPrivateKey: String

        public init(token: String, encapsulatedKey: String, sealedPrivateKey: String) {
            self.token = token
            self.encapsulatedKey = encapsulatedKey
            self.sealedPrivateKey = sealedPrivateKey
        }
    }

    /// Where the person names it, it must be the certificate's.
    public var merchantIdentifier: String?
    /// Base64 of the certificate's DER.
    public var certificate: String
    /// One for each token that is to hold the key.
    public var sealedKeys: [SealedKey]
    /// Takes an expired certificate too.
    public var allowExpired: Bool

    public init(
        merchantIdentifier: String? = nil, certificate: String, sealedKeys: [SealedKey], allowExpired: Bool = false
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.certificate = certificate
        self.sealedKeys = sealedKeys
        self.allowExpired = allowExpired
    }
}
