public import Crypto
import CryptoExtras
public import Foundation

/// Plays Google: signs intermediate keys with its root key, and makes Google Pay's payment tokens for merchants.
public struct GooglePayForge: Sendable {
    public let root: P256.Signing.PrivateKey
    /// The key that signs messages, for which ``intermediate(expiring:signedBy:)`` makes the signed text.
    public let intermediateKey: P256.Signing.PrivateKey

    public init(root: P256.Signing.PrivateKey = .init(), intermediateKey: P256.Signing.PrivateKey = .init()) {
        (self.root, self.intermediateKey) = (root, intermediateKey)
    }

    /// Makes a genuine payment token, encrypted to the merchant's key.
    ///
    /// - Parameters:
    ///   - plaintext: any bytes; ``plaintext(expiring:)`` makes Google's JSON.
    ///   - recipient: `merchant:` and the merchant's identifier.
    ///   - expiration: the intermediate key's.
    public func mint(
        _ plaintext: [UInt8], to merchantKey: P256.KeyAgreement.PublicKey, recipient: String, expiration: Date
    ) throws -> GooglePayEnvelope {
        let sealed = try GooglePaySealing(plaintext, to: merchantKey)
        var envelope = GooglePayEnvelope(
            signedKey: GooglePayText.signedKey(intermediateKey.publicKey, expiration: GooglePayText.time(expiration)),
            signedMessage: sealed.signedMessage)
        try sign(&envelope, recipient: recipient)
        return envelope
    }

    /// Signs the texts of an envelope again, after a change.
    ///
    /// - Parameter sender: `Google` in genuine payment tokens.
    public func sign(
        _ envelope: inout GooglePayEnvelope, recipient: String, sender: String = "Google", version: String = "ECv2"
    ) throws {
        envelope.signatures = [try Self.signature(of: [sender, version, envelope.signedKey], by: root)]
        envelope.signature = try Self.signature(
            of: [sender, recipient, version, envelope.signedMessage], by: intermediateKey)
    }

    /// Returns the base64 of an ECDSA signature in DER over the parts, each after its length in four little-endian bytes.
    public static func signature(of parts: [String], by key: P256.Signing.PrivateKey) throws -> String {
        var bytes = Data()
        for part in parts {
            let length = part.utf8.count
            bytes += [UInt8(length & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length >> 16 & 0xFF), UInt8(length >> 24)]
            bytes.append(contentsOf: Array(part.utf8))
        }
        return try key.signature(for: bytes).derRepresentation.base64EncodedString()
    }

    /// Returns a file of root keys as Google publishes it, with this forge's key for ECv2 alone.
    public func rootKeys(expiration: Date) -> [UInt8] {
        GooglePayText.rootKeys([(root.publicKey, "ECv2", GooglePayText.time(expiration))])
    }

    /// Returns payment data as Google encrypts it, with a fictitious card.
    public static func plaintext(expiring: Date) -> [UInt8] {
        Array(
            """
            {"messageExpiration":"\(GooglePayText.time(expiring))","messageId":"forged-\(UUID().uuidString)",\
            "paymentMethod":"CARD","paymentMethodDetails":{"pan":"4111111111111111","expirationMonth":12,\
            "expirationYear":2030,"authMethod":"CRYPTOGRAM_3DS","cryptogram":"AAAAAA==","eciIndicator":"05"}}
            """.utf8)
    }
}

/// The four members of a payment token, each as the text after one JSON decoding.
public struct GooglePayEnvelope: Sendable {
    public var protocolVersion = "ECv2"
    public var signature = ""
    public var signedKey: String
    public var signatures: [String] = []
    public var signedMessage: String

    public init(signedKey: String, signedMessage: String) {
        (self.signedKey, self.signedMessage) = (signedKey, signedMessage)
    }

    /// The payment token as JSON. Each `=` outside the signed texts is written as it is.
    public var json: String {
        """
        {"signature":\(JSONText.string(signature)),"intermediateSigningKey":{"signedKey":\(JSONText.string(signedKey)),\
        "signatures":[\(signatures.map(JSONText.string).joined(separator: ","))]},\
        "protocolVersion":\(JSONText.string(protocolVersion)),"signedMessage":\(JSONText.string(signedMessage))}
        """
    }
}

/// The texts that Google writes.
public enum GooglePayText {
    /// Milliseconds since 1970.
    public static func time(_ date: Date) -> String { String(Int((date.timeIntervalSince1970 * 1000).rounded())) }

    /// The signed text of an intermediate key.
    public static func signedKey(_ key: P256.Signing.PublicKey, expiration: String) -> String {
        "{\"keyValue\":\"\(base64(key.derRepresentation))\",\"keyExpiration\":\"\(expiration)\"}"
    }

    /// A file of root keys. An entry whose time is nil has no keyExpiration.
    public static func rootKeys(_ keys: [(key: P256.Signing.PublicKey, version: String, expiration: String?)])
        -> [UInt8]
    {
        let entries = keys.map { entry in
            let expiration = entry.expiration.map { ",\"keyExpiration\":\"\($0)\"" } ?? ""
            let value = entry.key.derRepresentation.base64EncodedString()
            return "{\"keyValue\":\"\(value)\",\"protocolVersion\":\"\(entry.version)\"\(expiration)}"
        }
        return Array("{\"keys\":[\(entries.joined(separator: ","))]}".utf8)
    }

    /// Base64 inside a signed text, in which Google escapes each `=`.
    static func base64(_ bytes: Data) -> String { bytes.base64EncodedString().replacing("=", with: "\\u003d") }
}

/// The encrypted part of a payment token: ECIES as Google uses it, with HKDF, AES-256-CTR and HMAC, all with SHA-256.
public struct GooglePaySealing: Sendable {
    public let signedMessage: String

    public init(_ plaintext: [UInt8], to merchantKey: P256.KeyAgreement.PublicKey) throws {
        let ephemeral = P256.KeyAgreement.PrivateKey()
        let point = ephemeral.publicKey.x963Representation
        let keys = Self.keys(try ephemeral.sharedSecretFromKeyAgreement(with: merchantKey), point)
        let ciphertext = try AES._CTR.encrypt(
            plaintext, using: SymmetricKey(data: keys.encryption), nonce: AES._CTR.Nonce(nonceBytes: Self.nonce))
        signedMessage = """
            {"encryptedMessage":"\(GooglePayText.base64(ciphertext))","ephemeralPublicKey":"\(GooglePayText.base64(point))",\
            "tag":"\(GooglePayText.base64(Self.mac(ciphertext, keys.authentication)))"}
            """
    }

    /// Opens an encrypted part; nil if it is not for this key, or its tag is wrong.
    public static func open(
        _ ciphertext: [UInt8], tag: [UInt8], ephemeralPublicKey point: [UInt8], with key: P256.KeyAgreement.PrivateKey
    ) throws -> [UInt8]? {
        let secret = try key.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(x963Representation: point))
        let keys = keys(secret, Data(point))
        guard Array(mac(Data(ciphertext), keys.authentication)) == tag else { return nil }
        return Array(
            try AES._CTR.decrypt(
                ciphertext, using: SymmetricKey(data: keys.encryption), nonce: AES._CTR.Nonce(nonceBytes: nonce)))
    }

    private static let nonce = [UInt8](repeating: 0, count: 16)

    /// RFC 5869 with 32 zero bytes as salt, the information "Google", and 64 bytes of output.
    private static func keys(_ secret: SharedSecret, _ point: Data) -> (encryption: Data, authentication: Data) {
        let material = unsafe secret.withUnsafeBytes { unsafe point + Data($0) }
        let extracted = mac(material, Data(repeating: 0, count: 32))
        let first = mac(Data("Google".utf8) + [1], extracted)
        return (first, mac(first + Data("Google".utf8) + [2], extracted))
    }

    private static func mac(_ message: Data, _ key: Data) -> Data {
        Data(HMAC<SHA256>.authenticationCode(for: message, using: SymmetricKey(data: key)))
    }
}
