import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/keys/{key}/state`.
public struct KeyStateRequest: StrictRequest {
    /// The new state, by its name in SP 800-57 part 1 §7: `active` (resumes the key), `suspended`, `deactivated` (retires
    /// it), `compromised` or `destroyed`.
    public var to: String
    /// The reason, which goes into the record: 1 to 200 characters.
    public var reason: String
    /// The time until which a deactivated key still decrypts. If absent, the key stops decrypting at once.
    public var cutOff: Date?

    public init(to: String, reason: String, cutOff: Date? = nil) {
        self.to = to
        self.reason = reason
        self.cutOff = cutOff
    }

    public enum CodingKeys: CodingKey, CaseIterable { case to, reason, cutOff }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

/// The body of `POST /v1/keys/{key}/adopt`.
public struct KeyAdoptionRequest: StrictRequest {
    /// The reason, which goes into the record: 1 to 200 characters.
    public var reason: String
    /// `google-pay` for a Google Pay key; absent for a key whose certificate determines its use and merchant.
    public var use: String?
    /// A Google Pay key's merchant by its identifier at Google; absent for any other key.
    public var merchantIdentifier: String?
    /// The identifier of the approval, 16 hex characters, once a second person has approved a Google Pay key's adoption.
    public var approval: String?

    public init(reason: String, use: String? = nil, merchantIdentifier: String? = nil, approval: String? = nil) {
        self.reason = reason
        self.use = use
        self.merchantIdentifier = merchantIdentifier
        self.approval = approval
    }

    public enum CodingKeys: CodingKey, CaseIterable { case reason, use, merchantIdentifier, approval }

    public func validate() throws(Refusal) { try validate(reason: reason) }
}

/// The body of `POST /v1/keys`, which generates a key pair inside an HSM token.
public struct KeyGenerationRequest: StrictRequest {
    /// The merchant identifier, 1 to 255 bytes. The certificate that is imported later must name the same merchant.
    public var merchantIdentifier: String
    /// The permanent use of the key: `processing`, the default, or `identity`.
    public var use: String?
    /// `EC` (P-256, for EC_v1) or `RSA` (2048 bits, for RSA_v1 and for identity keys). The default is EC for processing, RSA
    /// for identity.
    public var type: String
    /// The name of an HSM token in the configuration; required if there are several.
    public var token: String?

    public init(merchantIdentifier: String, use: String? = nil, type: String? = nil, token: String? = nil) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.type = type ?? Self.standardType(use)
        self.token = token
    }

    private static func standardType(_ use: String?) -> String { use == "identity" ? "RSA" : "EC" }

    public enum CodingKeys: CodingKey, CaseIterable { case merchantIdentifier, use, type, token }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        merchantIdentifier = try members.decode(String.self, forKey: .merchantIdentifier)
        use = try members.decodeIfPresent(String.self, forKey: .use)
        type = try members.decodeIfPresent(String.self, forKey: .type) ?? Self.standardType(use)
        token = try members.decodeIfPresent(String.self, forKey: .token)
    }
}

/// The body of `POST /v1/keys/import`.
///
/// A private key passes through the daemon only in sealed form (HPKE, RFC 9180), once for each HSM token. Only that HSM
/// token's worker can open it; the worker's public key is `importKey` in the status. The base64 members are decoded where
/// their bytes are used.
public struct KeyImportRequest: StrictRequest {
    public struct SealedKey: Codable, Sendable, Equatable {
        /// The HSM token's name in the configuration.
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

        enum CodingKeys: CodingKey, CaseIterable { case token, encapsulatedKey, sealedPrivateKey }
    }

    /// The merchant identifier that the operator expects. The daemon refuses the import if the certificate names another.
    /// Absent skips this check. For a Google Pay key: the merchant's identifier at Google, which is required.
    public var merchantIdentifier: String?
    /// `service` for the team's key of Apple's App Store Connect API, `google-pay` for a Google Pay key; absent for a key
    /// whose certificate determines its use.
    public var use: String?
    /// Base64 of the certificate's DER; absent for a service key and a Google Pay key, which have none.
    public var certificate: String?
    /// Base64 of the SubjectPublicKeyInfo in DER of a key without a certificate; absent for a key with one.
    public var publicKey: String?
    /// The sealed private key, once for each HSM token that is to hold it.
    public var sealedKeys: [SealedKey]
    /// True if the daemon is to accept an expired certificate. Absent means false.
    public var allowExpired: Bool
    /// The identifier of the approval, 16 hex characters, once a second person has approved the import.
    public var approval: String?

    public init(
        merchantIdentifier: String? = nil, use: String? = nil, certificate: String? = nil, publicKey: String? = nil,
        sealedKeys: [SealedKey], allowExpired: Bool = false, approval: String? = nil
    ) {
        self.merchantIdentifier = merchantIdentifier
        self.use = use
        self.certificate = certificate
        self.publicKey = publicKey
        self.sealedKeys = sealedKeys
        self.allowExpired = allowExpired
        self.approval = approval
    }

    public enum CodingKeys: CodingKey, CaseIterable {
        case merchantIdentifier, use, certificate, publicKey, sealedKeys, allowExpired, approval
    }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        approval = try members.decodeIfPresent(String.self, forKey: .approval)
        merchantIdentifier = try members.decodeIfPresent(String.self, forKey: .merchantIdentifier)
        use = try members.decodeIfPresent(String.self, forKey: .use)
        certificate = try members.decodeIfPresent(String.self, forKey: .certificate)
        publicKey = try members.decodeIfPresent(String.self, forKey: .publicKey)
        allowExpired = try members.decodeIfPresent(Bool.self, forKey: .allowExpired) ?? false
        sealedKeys = try members.decode([SealedKey].self, forKey: .sealedKeys)
    }

    public func validate() throws(Refusal) {
        guard Set(sealedKeys.map(\.token)).count == sealedKeys.count else {
            throw Refusal(.malformedRequest, "sealedKeys names an HSM token twice.", details: "sealedKeys")
        }
    }
}

/// The body of `POST /v1/certificates` and of `POST /v1/rotations/certificate`: a certificate for a key that is already in
/// an HSM token.
public struct CertificateImportRequest: StrictRequest {
    /// Base64 of the certificate's DER.
    public var certificate: String
    /// True if the daemon is to accept an expired certificate. Absent means false.
    public var allowExpired: Bool

    public init(certificate: String, allowExpired: Bool = false) {
        self.certificate = certificate
        self.allowExpired = allowExpired
    }

    public enum CodingKeys: CodingKey, CaseIterable { case certificate, allowExpired }

    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        certificate = try members.decode(String.self, forKey: .certificate)
        allowExpired = try members.decodeIfPresent(Bool.self, forKey: .allowExpired) ?? false
    }
}
