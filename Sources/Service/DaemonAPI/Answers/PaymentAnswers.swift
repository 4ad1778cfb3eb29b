import Encodings
public import Foundation
public import StrictJSON

/// The 200 answer of `POST /v1/decrypt`.
public struct DecryptAnswer: Sendable {
    /// 64 hex characters, lower case.
    public var transactionId: String
    public var merchantIdentifier: String
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    /// `EC_v1` or `RSA_v1`.
    public var version: String
    public var signingTime: Date
    /// The protection tier `A`, `B` or `C`.
    public var protection: String
    /// The names of the members of `expected` that the daemon compared. All of them matched, since a difference is a
    /// refusal.
    public var checked: [String]
    public var repeated: Bool
    /// The release's audit record.
    public var audit: AuditReference?

    public init(
        transactionId: String, merchantIdentifier: String, publicKeyHash: String, version: String, signingTime: Date,
        protection: String, checked: [String], repeated: Bool, audit: AuditReference? = nil
    ) {
        self.transactionId = transactionId
        self.merchantIdentifier = merchantIdentifier
        self.publicKeyHash = publicKeyHash
        self.version = version
        self.signingTime = signingTime
        self.protection = protection
        self.checked = checked
        self.repeated = repeated
        self.audit = audit
    }

    /// Returns the answer as JSON.
    ///
    /// - Parameter paymentData: the decrypted dictionary, copied into the answer byte for byte as Apple wrote it.
    public func json(paymentData: [UInt8]) -> [UInt8] {
        JSONWriter.object(capacity: paymentData.count + 512) { json in
            json.member("transactionId", transactionId)
            json.member("merchantIdentifier", merchantIdentifier)
            json.member("publicKeyHash", publicKeyHash)
            json.member("version", version)
            json.member("signingTime", RFC3339.string(signingTime))
            json.member("protection", protection)
            json.member("checked", checked)
            json.member("repeated", repeated)
            json.member("paymentData")
            json.rawValue(paymentData)
            json.member(audit: audit)
        }
    }

    /// Parses an answer for a client; returns nil if the body is not such an answer. `members` has all members as received,
    /// including those that only a newer daemon sends.
    ///
    /// A caller that needs the exact bytes of the decrypted dictionary must keep `body`: `paymentData` is only the parsed
    /// form.
    public static func read(
        _ body: [UInt8]
    ) -> (answer: DecryptAnswer, paymentData: JSONObject, members: JSONObject)? {
        guard let object = (try? JSONValue(parsing: body, limits: JSONLimits(maximumDepth: 32)))?.objectValue,
            let transactionId = object["transactionId"]?.stringValue,
            let merchantIdentifier = object["merchantIdentifier"]?.stringValue,
            let publicKeyHash = object["publicKeyHash"]?.stringValue, let version = object["version"]?.stringValue,
            let signingTime = object["signingTime"]?.stringValue.flatMap(RFC3339.date),
            let protection = object["protection"]?.stringValue, let checked = object["checked"]?.arrayValue,
            let repeated = object["repeated"]?.boolValue, let paymentData = object["paymentData"]?.objectValue
        else { return nil }
        let answer = DecryptAnswer(
            transactionId: transactionId, merchantIdentifier: merchantIdentifier, publicKeyHash: publicKeyHash,
            version: version, signingTime: signingTime, protection: protection,
            checked: checked.compactMap(\.stringValue), repeated: repeated, audit: AuditReference(object["audit"]))
        return (answer, paymentData, object)
    }
}

/// The 200 answer of `POST /v1/verify`.
public struct VerifyAnswer: Codable, Sendable, Equatable {
    /// `EC_v1` or `RSA_v1`.
    public var version: String
    /// 64 hex characters, lower case.
    public var transactionId: String
    /// Base64 of 32 bytes.
    public var publicKeyHash: String
    /// The CMS signingTime attribute (RFC 5652 §11.3).
    public var signingTime: Date
    /// The certificates from the leaf to the root: leaf, intermediate, root.
    public var chain: [CertificateSummary]

    public init(
        version: String, transactionId: String, publicKeyHash: String, signingTime: Date, chain: [CertificateSummary]
    ) {
        self.version = version
        self.transactionId = transactionId
        self.publicKeyHash = publicKeyHash
        self.signingTime = signingTime
        self.chain = chain
    }
}

/// The 200 answer of `POST /v1/google-pay/decrypt`.
public struct GooglePayDecryptAnswer: Sendable {
    /// The SHA-256 of signedMessage, 64 hex characters, lower case.
    public var transactionId: String
    /// Google's identifier of the message.
    public var messageId: String
    /// `PAN_ONLY` or `CRYPTOGRAM_3DS`.
    public var authMethod: String
    public var merchantIdentifier: String
    /// Base64 of 32 bytes: the key that opened the message.
    public var publicKeyHash: String
    /// The protection tier `A`, `B` or `C`.
    public var protection: String
    public var repeated: Bool
    /// The release's audit record.
    public var audit: AuditReference?

    public init(
        transactionId: String, messageId: String, authMethod: String, merchantIdentifier: String, publicKeyHash: String,
        protection: String, repeated: Bool, audit: AuditReference? = nil
    ) {
        self.transactionId = transactionId
        self.messageId = messageId
        self.authMethod = authMethod
        self.merchantIdentifier = merchantIdentifier
        self.publicKeyHash = publicKeyHash
        self.protection = protection
        self.repeated = repeated
        self.audit = audit
    }

    /// Returns the answer as JSON.
    ///
    /// - Parameter paymentData: the whole plaintext, copied into the answer byte for byte as Google wrote it.
    public func json(paymentData: [UInt8]) -> [UInt8] {
        JSONWriter.object(capacity: paymentData.count + 512) { json in
            json.member("transactionId", transactionId)
            json.member("messageId", messageId)
            json.member("authMethod", authMethod)
            json.member("merchantIdentifier", merchantIdentifier)
            json.member("publicKeyHash", publicKeyHash)
            json.member("protection", protection)
            json.member("repeated", repeated)
            json.member("paymentData")
            json.rawValue(paymentData)
            json.member(audit: audit)
        }
    }

    /// Parses an answer for a client; returns nil if the body is not such an answer. `paymentData` is the parsed
    /// plaintext, and `members` has all members as received.
    public static func read(
        _ body: [UInt8]
    ) -> (answer: GooglePayDecryptAnswer, paymentData: JSONObject, members: JSONObject)? {
        guard let object = (try? JSONValue(parsing: body, limits: JSONLimits(maximumDepth: 32)))?.objectValue,
            let transactionId = object["transactionId"]?.stringValue,
            let messageId = object["messageId"]?.stringValue, let authMethod = object["authMethod"]?.stringValue,
            let merchantIdentifier = object["merchantIdentifier"]?.stringValue,
            let publicKeyHash = object["publicKeyHash"]?.stringValue,
            let protection = object["protection"]?.stringValue, let repeated = object["repeated"]?.boolValue,
            let paymentData = object["paymentData"]?.objectValue
        else { return nil }
        let answer = GooglePayDecryptAnswer(
            transactionId: transactionId, messageId: messageId, authMethod: authMethod,
            merchantIdentifier: merchantIdentifier, publicKeyHash: publicKeyHash, protection: protection,
            repeated: repeated, audit: AuditReference(object["audit"]))
        return (answer, paymentData, object)
    }
}

/// The 200 answer of `POST /v1/google-pay/verify`.
public struct GooglePayVerifyAnswer: Codable, Sendable, Equatable {
    /// `ECv2`.
    public var version: String
    /// SHA-256 of signedMessage: 64 hex characters, lower case.
    public var transactionId: String
    /// The merchant of the request, for whom Google made the payment token.
    public var merchantIdentifier: String
    /// The keys from the message's signer to the root: intermediate signing key, root key.
    public var chain: [GoogleKeySummary]

    public init(version: String, transactionId: String, merchantIdentifier: String, chain: [GoogleKeySummary]) {
        self.version = version
        self.transactionId = transactionId
        self.merchantIdentifier = merchantIdentifier
        self.chain = chain
    }
}

/// A signing key of Google's. Google publishes keys and no certificates, so it has no name.
public struct GoogleKeySummary: Codable, Sendable, Equatable {
    /// The key's keyExpiration.
    public var notAfter: Date
    /// SHA-256 of the SubjectPublicKeyInfo in DER, 64 hex characters, lower case.
    public var sha256: String

    public init(notAfter: Date, sha256: String) {
        self.notAfter = notAfter
        self.sha256 = sha256
    }
}

/// The parts of a certificate that a person needs.
public struct CertificateSummary: Codable, Sendable, Equatable {
    /// The distinguished name in the form of RFC 4514.
    public var subject: String
    public var issuer: String
    /// The serial number in hex, lower case.
    public var serialNumber: String
    public var notBefore: Date
    public var notAfter: Date
    /// SHA-256 of the DER, 64 hex characters, lower case, as in `trust.distrusted`.
    public var sha256: String

    public init(
        subject: String, issuer: String, serialNumber: String, notBefore: Date, notAfter: Date, sha256: String
    ) {
        self.subject = subject
        self.issuer = issuer
        self.serialNumber = serialNumber
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.sha256 = sha256
    }
}
