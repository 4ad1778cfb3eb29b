// What can be said of a payment token without its key: its shape, its signature, and whether it is the payment that the
// caller expects. No I/O, no clock, no C: the same bytes always get the same answer, and a time comes in as a parameter.
//
// The daemon calls it in the order of Apple's "Payment token format reference" (`TokenDecryptor`): `PaymentToken` reads
// the JSON, `SignatureEvidence` finds out who signed it, `TrustPolicy` whether that is Apple, `SigningTimeWindow` whether
// that was recently, `ExpectedDetails` whether the payment is the expected one, and, once the HSM's side has decrypted
// the data, `PaymentPayload` reads what is compared. Whatever fails throws a `Refusal` with the contract's code. Every
// input is an untrusted caller's: sizes are bounded before anything is parsed, and nothing of a payment can be printed.

internal import Crypto
internal import Encodings
public import Refusals
public import StrictJSON

/// A payment token as Apple's "Payment token format reference" describes it, decoded and of the right shape.
///
/// Nothing in it is verified yet: it is what an untrusted caller sent. `SignatureEvidence` and `TrustPolicy` say whether
/// Apple signed it.
public struct PaymentToken: Sendable, Equatable {
    /// The largest `data` and `signature` that are looked at, in bytes after base64. Real ones have about 300 and
    /// 2,600; anything larger would only cost the daemon time.
    public static let maximumDataSize = 65_536
    public static let maximumSignatureSize = 16_384

    public let version: PaymentTokenVersion
    public let keyMaterial: KeyMaterial
    /// Ciphertext with its 16-byte GCM tag at the end; at least one byte beside the tag.
    public let encryptedData: [UInt8]
    /// The detached CMS signature, BER (RFC 5652).
    public let signature: [UInt8]
    public let publicKeyHash: PublicKeyHash
    public let transactionIdentifier: TransactionIdentifier
    /// SHA-256 of the payment request's applicationData, 32 bytes; nil when the request had none.
    public let applicationDataHash: [UInt8]?

    /// Reads a PKPaymentToken dictionary, or its `paymentData` alone. Members that are not known are ignored.
    ///
    /// - Throws: `unsupported_version`, which is checked first, or `malformed_token` with the member's name in
    ///   `details`.
    public init(json: JSONValue) throws(Refusal) {
        let outer = try PaymentTokenMembers(json, path: "token")
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

        // Beside paymentData, and in Apple's dictionary equal to the header's.
        if outer.has("transactionIdentifier") {
            let outerIdentifier = try outer.read("transactionIdentifier", "64 hexadecimal digits") { text in
                TransactionIdentifier(hex: text)
            }
            guard outerIdentifier == transactionIdentifier else {
                throw .malformedToken("transactionIdentifier differs from header.transactionId")
            }
        }
    }

    private static func keyMaterial(
        of header: PaymentTokenMembers, version: PaymentTokenVersion
    ) throws(Refusal) -> KeyMaterial {
        guard !(header.has("ephemeralPublicKey") && header.has("wrappedKey")) else {
            throw .malformedToken("\(header.path) has both ephemeralPublicKey and wrappedKey")
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

    /// What Apple signed: (ephemeralPublicKey | wrappedKey) ‖ data ‖ transactionId ‖ applicationData, each decoded.
    ///
    /// Nothing separates the parts, so other parts can have the same content and the same valid signature. The lengths
    /// are therefore those that Apple uses and no others; what can still be moved, 32 bytes at a time between the last
    /// three, changes `data`, and its authentication tag is then wrong.
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

    /// What the HSM's side needs beside the key: EC_v1 the ephemeral point, 65 bytes, known to be on the curve;
    /// RSA_v1 the wrapped key, 256 bytes.
    ///
    /// - Throws: `decryption_failed` for a point that is not on the curve.
    public func restorationInput() throws(Refusal) -> [UInt8] {
        switch keyMaterial {
        case .ephemeralPublicKey(let key): try key.pointOnCurve()
        case .wrappedKey(let key): key
        }
    }
}

/// A request's body is written nowhere, not even by an interpolation into a log line.
extension PaymentToken: Unprintable {}

/// How a payment token's data is encrypted and signed: the `version` member of Apple's payment token format.
public enum PaymentTokenVersion: String, Sendable, Hashable, CaseIterable {
    /// ECDH on P-256, AES-256-GCM, signed with ECDSA.
    case ecV1 = "EC_v1"
    /// RSA-OAEP, AES-128-GCM, signed with RSA.
    case rsaV1 = "RSA_v1"

    /// The version that a payment token names. `RSA_v2` is read as another name for `RSA_v1`.
    public init?(named name: String) {
        switch name {
        case "EC_v1": self = .ecV1
        case "RSA_v1", "RSA_v2": self = .rsaV1
        default: return nil
        }
    }
}

/// One of a payment token's dictionaries while it is read, with its path, which refusals name.
private struct PaymentTokenMembers {
    let path: String
    private let object: JSONObject

    init(_ value: JSONValue, path: String) throws(Refusal) {
        guard let object = value.objectValue else { throw .malformedToken("\(path) is not an object") }
        (self.object, self.path) = (object, path)
    }

    func has(_ name: String) -> Bool {
        object[name] != nil
    }

    func members(_ name: String) throws(Refusal) -> PaymentTokenMembers {
        guard let value = object[name] else { throw .malformedToken("\(path).\(name) is missing") }
        return try PaymentTokenMembers(value, path: "\(path).\(name)")
    }

    func string(_ name: String) throws(Refusal) -> String {
        guard let value = object[name] else { throw .malformedToken("\(path).\(name) is missing") }
        guard let text = value.stringValue else { throw .malformedToken("\(path).\(name) is not a string") }
        return text
    }

    /// A string member, decoded; `form` says what it should have been when `decode` gives nil.
    func read<Value>(_ name: String, _ form: String, decode: (String) -> Value?) throws(Refusal) -> Value {
        guard let value = decode(try string(name)) else {
            throw .malformedToken("\(path).\(name) is not \(form)")
        }
        return value
    }
}

extension Refusal {
    /// - Parameter details: the member's path and what is wrong with it, never its value.
    fileprivate static func malformedToken(_ details: String) -> Refusal {
        Refusal(
            .malformedToken,
            "What was sent does not have the shape of Apple's payment token; send it as it was received.",
            details: details)
    }

    /// Without details, on purpose: what exactly failed would be an oracle.
    public static var decryptionFailed: Refusal {
        Refusal(
            .decryptionFailed,
            "The payment token's data cannot be decrypted; do not retry it, and ask the customer to pay again.")
    }
}

/// What, with the merchant's private key, restores a payment token's symmetric key.
public enum KeyMaterial: Sendable, Equatable {
    /// EC_v1.
    case ephemeralPublicKey(EphemeralPublicKey)
    /// RSA_v1: the symmetric key, RSA-OAEP encrypted; as long as the modulus, 256 bytes.
    case wrappedKey([UInt8])

    /// The length of a wrapped key: Apple's portal accepts 2048-bit RSA keys only.
    public static let wrappedKeySize = 256

    /// The bytes that the header carries and the signature covers.
    public var encoded: [UInt8] {
        switch self {
        case .ephemeralPublicKey(let key): key.subjectPublicKeyInfo
        case .wrappedKey(let key): key
        }
    }
}

/// The Secure Element's one-time public key of an EC_v1 payment token, as the header carries it.
public struct EphemeralPublicKey: Sendable, Equatable {
    /// SubjectPublicKeyInfo in DER, 91 bytes: what the signature covers.
    public let subjectPublicKeyInfo: [UInt8]

    /// The uncompressed point, 65 bytes (SEC 1 §2.3.3). Not yet checked to be on the curve.
    public let point: [UInt8]

    /// Nil unless this is the DER of a SubjectPublicKeyInfo for P-256 as a named curve (RFC 5480 §2.1.1) with an
    /// uncompressed point. DER leaves one way of writing that, so all bytes before the point are given.
    public init?(subjectPublicKeyInfo bytes: [UInt8]) {
        guard let point = SubjectPublicKeyInfo.p256Point(in: bytes), point.first == 4 else { return nil }
        subjectPublicKeyInfo = bytes
        self.point = point
    }

    /// The point, once it is known to be on P-256.
    ///
    /// - Throws: `decryption_failed` for any other point: it must not reach the private key (an invalid-curve attack
    ///   learns the key from the answers), and the code is the one that every failed decryption has.
    public func pointOnCurve() throws(Refusal) -> [UInt8] {
        do {
            _ = try P256.KeyAgreement.PublicKey(x963Representation: point)
        } catch {
            throw .decryptionFailed
        }
        return point
    }
}

/// What the one-step KDF mixes in beside the shared secret (NIST SP 800-56A §5.8.2.1; "Restoring the symmetric key").
public enum OtherInfo {
    /// EC_v1: algorithm identifier 0x0D "id-aes256-GCM", PartyUInfo "Apple", PartyVInfo SHA-256 of the merchant
    /// identifier's UTF-8. 51 bytes, without the KDF's counter.
    public static func ecV1(merchantIdentifier: String) -> [UInt8] {
        [0x0D] + "id-aes256-GCM".utf8 + "Apple".utf8 + SHA256.hash(data: Array(merchantIdentifier.utf8))
    }
}

/// Which merchant key a payment token is encrypted to: SHA-256 of the SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) in DER of the
/// merchant certificate's public key. 32 bytes; the CKA_ID of the key in the HSM.
public struct PublicKeyHash: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is base64 of 32 bytes, with or without padding.
    public init?(base64 text: String) {
        guard let bytes = Base64.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// Nil unless `text` is 64 hexadecimal digits of either case.
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

    /// 44 characters: the spelling in payment tokens and answers.
    public var base64: String { Base64.encode(bytes) }

    /// 64 lower-case digits: the spelling in paths and on the command line.
    public var hex: String { Hexadecimal.encode(bytes) }
}

/// The device's name for a transaction: 32 bytes, written in hexadecimal. A transaction is released once, ever.
public struct TransactionIdentifier: Hashable, Sendable {
    public static let size = 32

    /// 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless there are 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.size else { return nil }
        self.bytes = Array(bytes)
    }

    /// Nil unless `text` is 64 hexadecimal digits of either case.
    public init?(hex text: String) {
        guard let bytes = Hexadecimal.decode(text) else { return nil }
        self.init(bytes: bytes)
    }

    /// 64 lower-case digits.
    public var hex: String { Hexadecimal.encode(bytes) }
}
