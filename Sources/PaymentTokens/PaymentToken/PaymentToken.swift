// Checks of a payment token that need no private key: its format, its signature, and the caller's expectations. There
// is no I/O, no clock and no C. The time is a parameter, so the same input always gives the same result.
//
// The daemon (`TokenDecryptor`) calls the types in the order of Apple's "Payment token format reference".
// `PaymentToken` parses the JSON. `SignatureEvidence` finds the signer, `TrustPolicy` checks that the signer is Apple,
// and `SigningTimeWindow` that the signature is recent. `ExpectedDetails` compares the payment with the expected one.
// After the data is decrypted with the HSM, `PaymentPayload` reads the values that are compared. Every failure throws a
// `Refusal` with the contract's code. All input is from untrusted callers: sizes are limited before parsing, and
// payment data cannot be printed.

internal import Crypto
internal import Encodings
public import Refusals
public import StrictJSON

/// A payment token in the format of Apple's "Payment token format reference", decoded and well-formed.
///
/// Its content comes from an untrusted caller and is not verified yet. `SignatureEvidence` and `TrustPolicy` check
/// that Apple signed it.
public struct PaymentToken: Sendable, Equatable {
    /// The largest `data` and `signature` that are processed, in bytes after decoding base64. Real ones have about 300
    /// and 2,600 bytes; larger ones would only waste the daemon's time.
    public static let maximumDataSize = 65_536
    public static let maximumSignatureSize = 16_384

    public let version: PaymentTokenVersion
    public let keyMaterial: KeyMaterial
    /// The ciphertext with its 16-byte GCM tag at the end, and with at least one byte before the tag.
    public let encryptedData: [UInt8]
    /// The detached CMS signature, BER (RFC 5652).
    public let signature: [UInt8]
    public let publicKeyHash: PublicKeyHash
    public let transactionIdentifier: TransactionIdentifier
    /// SHA-256 of the payment request's applicationData, 32 bytes; nil if the request had none.
    public let applicationDataHash: [UInt8]?

    /// Parses a PKPaymentToken dictionary, or its `paymentData` alone. Unknown members are ignored.
    ///
    /// - Throws: `unsupported_version`, which is checked first, or `malformed_token` with the member's name in
    ///   `details`.
    public init(json: JSONValue) throws(Refusal) {
        let outer = try PaymentTokenMembers(json, path: "token", specifiedBy: "Apple")
        let paymentData = outer.has("paymentData") ? try outer.members("paymentData") : outer

        let name = try paymentData.string("version")
        guard let version = PaymentTokenVersion(named: name) else {
            throw Refusal(
                .unsupportedVersion, "The payment token's version is not supported; EC_v1, RSA_v1 and RSA_v2 are.")
        }
        self.version = version

        let header = try paymentData.members("header")
        publicKeyHash = try header.read("publicKeyHash", "32 bytes in base64") { text in PublicKeyHash(base64: text) }
        transactionIdentifier = try header.read("transactionId", "64 hexadecimal digits") { text in
            TransactionIdentifier(hex: text)
        }
        keyMaterial = try Self.keyMaterial(of: header, version: version)
        applicationDataHash =
            header.has("applicationData")
            ? try header.read("applicationData", "64 hexadecimal digits") { text in
                Hexadecimal.decode(text).flatMap { bytes in bytes.count == 32 ? bytes : nil }
            } : nil

        encryptedData = try paymentData.read("data", "base64 of 17 to \(Self.maximumDataSize) bytes") { text in
            Base64.decode(text).flatMap { bytes in (17...Self.maximumDataSize).contains(bytes.count) ? bytes : nil }
        }
        signature = try paymentData.read("signature", "base64 of 1 to \(Self.maximumSignatureSize) bytes") { text in
            Base64.decode(text).flatMap { bytes in (1...Self.maximumSignatureSize).contains(bytes.count) ? bytes : nil }
        }

        // Apple's dictionary also has this member next to paymentData, with the same value as in the header.
        if outer.has("transactionIdentifier") {
            let outerIdentifier = try outer.read("transactionIdentifier", "64 hexadecimal digits") { text in
                TransactionIdentifier(hex: text)
            }
            guard outerIdentifier == transactionIdentifier else {
                throw .malformedToken(
                    "transactionIdentifier differs from header.transactionId", specifiedBy: "Apple")
            }
        }
    }

    private static func keyMaterial(
        of header: PaymentTokenMembers, version: PaymentTokenVersion
    ) throws(Refusal) -> KeyMaterial {
        guard !(header.has("ephemeralPublicKey") && header.has("wrappedKey")) else {
            throw .malformedToken(
                "\(header.path) has both ephemeralPublicKey and wrappedKey", specifiedBy: "Apple")
        }
        switch version {
        case .ecV1:
            return .ephemeralPublicKey(
                try header.read("ephemeralPublicKey", "base64 of a P-256 SubjectPublicKeyInfo in DER, 91 bytes") {
                    text in Base64.decode(text).flatMap(EphemeralPublicKey.init(subjectPublicKeyInfo:))
                })
        case .rsaV1:
            return .wrappedKey(
                try header.read("wrappedKey", "base64 of \(KeyMaterial.wrappedKeySize) bytes") { text in
                    Base64.decode(text).flatMap { bytes in bytes.count == KeyMaterial.wrappedKeySize ? bytes : nil }
                })
        }
    }

    /// The bytes that Apple signed: (ephemeralPublicKey | wrappedKey) ‖ data ‖ transactionId ‖ applicationData, each
    /// decoded.
    ///
    /// Nothing separates the parts, so different parts can give the same signed content and the same valid signature.
    /// Only the lengths that Apple uses are therefore accepted. Bytes can still be moved between the last three parts,
    /// 32 at a time. That changes `data`, so that its authentication tag no longer matches.
    public var signedContent: [UInt8] {
        let material = keyMaterial.encoded
        var content: [UInt8] = []
        content.reserveCapacity(material.count + encryptedData.count + 64)
        content += material
        content += encryptedData
        content += transactionIdentifier.bytes
        content += applicationDataHash ?? []
        return content
    }

    /// The key material that the HSM token uses to restore the symmetric key. For EC_v1 it is the ephemeral point, 65
    /// bytes, which this function checks to be on the curve. For RSA_v1 it is the wrapped key, 256 bytes.
    ///
    /// - Throws: `decryption_failed` if the point is not on the curve.
    public func restorationInput() throws(Refusal) -> [UInt8] {
        switch keyMaterial {
        case .ephemeralPublicKey(let key): try key.pointOnCurve()
        case .wrappedKey(let key): key
        }
    }
}

/// The request's body is never printed, not even when a log message interpolates it.
extension PaymentToken: Unprintable {}

/// The encryption and signature of a payment token: the `version` member of Apple's payment token format.
public enum PaymentTokenVersion: String, Sendable, Hashable, CaseIterable {
    /// ECDH on P-256, AES-256-GCM, signed with ECDSA.
    case ecV1 = "EC_v1"
    /// RSA-OAEP, AES-128-GCM, signed with RSA.
    case rsaV1 = "RSA_v1"

    /// The version that has this name in payment tokens. `RSA_v2` is another name for `RSA_v1`.
    public init?(named name: String) {
        switch name {
        case "EC_v1": self = .ecV1
        case "RSA_v1", "RSA_v2": self = .rsaV1
        default: return nil
        }
    }
}

extension Refusal {
    /// The refusal for every failed decryption. It has no details, because an attacker could use the exact cause as an
    /// oracle.
    public static var decryptionFailed: Refusal {
        Refusal(
            .decryptionFailed,
            "The payment token's data cannot be decrypted; do not retry it, and ask the customer to pay again.")
    }
}

/// The value that, with the merchant's private key, restores a payment token's symmetric key.
public enum KeyMaterial: Sendable, Equatable {
    /// For EC_v1, the ephemeral public key.
    case ephemeralPublicKey(EphemeralPublicKey)
    /// For RSA_v1, the symmetric key, encrypted with RSA-OAEP. It is as long as the modulus, 256 bytes.
    case wrappedKey([UInt8])

    /// The length of a wrapped key: Apple's portal accepts 2048-bit RSA keys only.
    public static let wrappedKeySize = 256

    /// The bytes in the header, which the signature covers.
    public var encoded: [UInt8] {
        switch self {
        case .ephemeralPublicKey(let key): key.subjectPublicKeyInfo
        case .wrappedKey(let key): key
        }
    }
}

/// The Secure Element's one-time public key of an EC_v1 payment token, from the header.
public struct EphemeralPublicKey: Sendable, Equatable {
    /// SubjectPublicKeyInfo in DER, 91 bytes, which the signature covers.
    public let subjectPublicKeyInfo: [UInt8]

    /// The uncompressed point, 65 bytes (SEC 1 §2.3.3). Not yet checked to be on the curve.
    public let point: [UInt8]

    /// Returns nil unless the bytes are the DER of a SubjectPublicKeyInfo with P-256 as a named curve (RFC 5480 §2.1.1)
    /// and an uncompressed point. DER has only one encoding of it, so all bytes before the point are fixed.
    public init?(subjectPublicKeyInfo bytes: [UInt8]) {
        guard let point = SubjectPublicKeyInfo.p256Point(in: bytes), point.first == 4 else { return nil }
        subjectPublicKeyInfo = bytes
        self.point = point
    }

    /// The point, after the check that it is on P-256.
    ///
    /// - Throws: `decryption_failed` for any other point. Such a point must not reach the private key: with an
    ///   invalid-curve attack, the answers reveal the key. Every failed decryption has the same code.
    public func pointOnCurve() throws(Refusal) -> [UInt8] {
        do {
            _ = try P256.KeyAgreement.PublicKey(x963Representation: point)
        } catch {
            throw .decryptionFailed
        }
        return point
    }
}

/// The one-step KDF's second input, OtherInfo; the first is the shared secret (NIST SP 800-56A §5.8.2.1; Apple's
/// "Restoring the symmetric key").
public enum OtherInfo {
    /// EC_v1: algorithm identifier 0x0D "id-aes256-GCM", PartyUInfo "Apple", PartyVInfo SHA-256 of the merchant
    /// identifier's UTF-8. 51 bytes, without the KDF's counter.
    public static func ecV1(merchantIdentifier: String) -> [UInt8] {
        ecV1(merchantIdentifierHash: Array(SHA256.hash(data: Array(merchantIdentifier.utf8))))
    }

    /// - Parameter hash: SHA-256 of the merchant identifier's UTF-8, as Apple's extension of a merchant certificate has
    ///   it: 32 bytes.
    public static func ecV1(merchantIdentifierHash hash: [UInt8]) -> [UInt8] {
        [0x0D] + "id-aes256-GCM".utf8 + "Apple".utf8 + hash
    }
}

/// The hash that identifies the merchant key of a payment token: SHA-256 of the SubjectPublicKeyInfo (RFC 5280
/// §4.1.2.7) of the merchant certificate's public key, in DER. 32 bytes; the CKA_ID of the key in the HSM.
public struct PublicKeyHash: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Returns nil unless there are exactly 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Returns nil unless `text` is base64 of 32 bytes, with or without padding.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// Returns nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    private init(digest: SHA256.Digest) {
        bytes = Array(digest)
    }

    /// The hash of a SubjectPublicKeyInfo in DER.
    public static func of(subjectPublicKeyInfo: some Collection<UInt8>) -> PublicKeyHash {
        PublicKeyHash(digest: SHA256.hash(data: Array(subjectPublicKeyInfo)))
    }

    /// 44 characters: the form in payment tokens and answers.
    public var base64: String { Base64.encode(bytes) }

    /// 64 lower-case digits: the form in paths and on the command line.
    public var hex: String { Hexadecimal.encode(bytes) }
}

/// The device's identifier of a transaction: 32 bytes, written in hexadecimal. A transaction is released only once.
public struct TransactionIdentifier: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Returns nil unless there are exactly 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Returns nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// The SHA-256 of a payment token's signed content, for formats without an identifier of their own.
    package init(sha256Of content: [UInt8]) {
        bytes = Array(SHA256.hash(data: content))
    }

    /// 64 lower-case digits.
    public var hex: String { Hexadecimal.encode(bytes) }
}
