public import Refusals

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
    /// Of a second person, where the import needs one: 16 hex characters.
    public var approval: String?

    public init(
        merchantIdentifier: String? = nil, certificate: String, sealedKeys: [SealedKey], allowExpired: Bool = false,
        approval: String? = nil
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.certificate = certificate
        self.sealedKeys = sealedKeys
        self.allowExpired = allowExpired
        self.approval = approval
    }

    /// Reads the body strictly. Base64 is left to those who use the bytes.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(
            parsing: body, known: ["merchantIdentifier", "certificate", "sealedKeys", "allowExpired", "approval"])
        approval = try body.string("approval")
        merchantIdentifier = try body.string("merchantIdentifier")
        certificate = try body.requiredString("certificate")
        allowExpired = try body.bool("allowExpired") ?? false
        guard let sealed = try body.required("sealedKeys").arrayValue, (1...16).contains(sealed.count) else {
            throw RequestBody.wrongType("sealedKeys", "an array of 1 to 16 objects")
        }
        var sealedKeys: [SealedKey] = []
        for value in sealed {
            let key = try RequestBody(
                value, named: "sealedKeys[]", known: ["token", "encapsulatedKey", "sealedPrivateKey"])
            sealedKeys.append(
                SealedKey(
                    token: try key.requiredString("token"), encapsulatedKey: try key.requiredString("encapsulatedKey"),
                    sealedPrivateKey: try key.requiredString("sealedPrivateKey")))
        }
        guard Set(sealedKeys.map(\.token)).count == sealedKeys.count else {
            throw Refusal(.malformedRequest, "sealedKeys names a token twice.", details: "sealedKeys")
        }
        self.sealedKeys = sealedKeys
    }
}
