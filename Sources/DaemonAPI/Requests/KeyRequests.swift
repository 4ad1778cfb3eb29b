import Encodings
public import Foundation
public import Refusals

/// The body of `POST /v1/keys/{hex}/state`.
public struct KeyStateRequest: Codable, Sendable, Equatable {
    /// A state's name, SP 800-57 part 1 §7: `active` (resume), `suspended`, `deactivated` (retire), `compromised` or
    /// `destroyed`.
    public var to: String
    /// At most 200 printable characters; recorded.
    public var reason: String
    /// Until when a deactivated key still decrypts; without it, it does not.
    public var cutOff: Date?

    public init(to: String, reason: String, cutOff: Date? = nil) {
        self.to = to
        self.reason = reason
        self.cutOff = cutOff
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["to", "reason", "cutOff"])
        to = try body.requiredString("to")
        reason = try body.reason()
        cutOff = nil
        if let text = try body.string("cutOff") {
            guard let date = RFC3339.date(text) else { throw RequestBody.wrongType("cutOff", "an RFC 3339 time") }
            cutOff = date
        }
    }
}

/// The body of `POST /v1/keys/{hex}/adopt`.
public struct KeyAdoptRequest: Codable, Sendable, Equatable {
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        reason = try RequestBody(parsing: body, known: ["reason"]).reason()
    }
}

/// The body of `POST /v1/approvals/{id}`.
public struct ApprovalDecisionRequest: Codable, Sendable, Equatable {
    /// `approve`, `reject` or `withdraw`.
    public var decision: String
    public var reason: String?

    public init(decision: String, reason: String? = nil) {
        self.decision = decision
        self.reason = reason
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["decision", "reason"])
        decision = try body.requiredString("decision")
        reason = body.members["reason"] == nil ? nil : try body.reason()
    }
}

extension RequestBody {
    /// `reason`: 1 to 200 characters.
    func reason() throws(Refusal) -> String {
        let reason = try requiredString("reason")
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw Refusal(.malformedRequest, "reason must have 1 to 200 characters.", details: "reason")
        }
        return reason
    }
}

/// The body of `POST /v1/keys`: a key pair to be made inside a token.
public struct KeyGenerationRequest: Codable, Sendable, Equatable {
    /// 1 to 255 bytes; the certificate that is imported later must name it too.
    public var merchantIdentifier: String
    /// `EC` (P-256, for EC_v1) or `RSA` (2048 bits, for RSA_v1).
    public var type: String
    /// The token's name in the configuration; needed when there are several.
    public var token: String?

    public init(merchantIdentifier: String, type: String = "EC", token: String? = nil) {
        self.merchantIdentifier = merchantIdentifier
        self.type = type
        self.token = token
    }

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["merchantIdentifier", "type", "token"])
        merchantIdentifier = try body.requiredString("merchantIdentifier")
        type = try body.string("type") ?? "EC"
        token = try body.string("token")
    }
}

/// The body of `POST /v1/keys/{key}/csr`, and of other operations that need no words: an empty object.
public struct EmptyRequest: Codable, Sendable, Equatable {
    public init() {}

    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        _ = try RequestBody(parsing: body, known: [])
    }
}

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

/// The body of `POST /v1/certificates`: a certificate for a key that is in a token already.
public struct CertificateImportRequest: Codable, Sendable, Equatable {
    /// Base64 of the certificate's DER.
    public var certificate: String
    /// Takes an expired certificate too.
    public var allowExpired: Bool

    public init(certificate: String, allowExpired: Bool = false) {
        self.certificate = certificate
        self.allowExpired = allowExpired
    }

    /// Reads the body strictly. Base64 is left to those who use the bytes.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let body = try RequestBody(parsing: body, known: ["certificate", "allowExpired"])
        certificate = try body.requiredString("certificate")
        allowExpired = try body.bool("allowExpired") ?? false
    }
}
