// Google Pay's payment tokens, as far as no private key is needed: their format, and the signatures up to Google's root
// keys. There is no I/O, no clock and no C. The time is a parameter, so the same input always gives the same result.
//
// The daemon calls the types in this order. `GooglePayToken` parses the JSON, and `GooglePaySignature.swift` verifies
// it for one merchant under `GoogleRootKeys`. Every failure throws a `Refusal` with the contract's code.
//
// The source of the rules is Google's "Payment data cryptography for merchants" and Tink's PaymentMethodTokenRecipient.
// This parser is stricter than both: it refuses duplicate members and unknown ones, and every second spelling of bytes.

public import Encodings
public import Foundation
public import PaymentToken
public import Refusals
public import StrictJSON

/// A payment token of Google Pay with the protocol version ECv2, decoded and well-formed.
///
/// Its content comes from an untrusted caller and is not verified yet. ``verify(for:under:at:)`` checks that Google
/// signed it for a merchant.
public struct GooglePayToken: Sendable, Equatable {
    /// The only supported `protocolVersion`.
    public static let version = "ECv2"
    /// The largest ``signedMessage`` and `signedKey`, in bytes of UTF-8. Real ones have about 900 and 190.
    public static let maximumSignedMessageSize = 16_384
    public static let maximumSignedKeySize = 4_096
    /// The most signatures on an intermediate key. Each costs a verification with each root key.
    public static let maximumSignatures = 8
    /// The largest signature, in bytes. ECDSA's on P-256 in DER has at most 72; one by another algorithm may be listed.
    public static let maximumSignatureSize = 512

    public let intermediateKey: GoogleIntermediateKey
    /// The intermediate key's signature over the message, in DER.
    let signature: [UInt8]
    /// The message that the intermediate key signed: the UTF-8 of the string after exactly one JSON decoding. It is
    /// never serialised again, since every other spelling has another signature.
    public let signedMessage: [UInt8]
    /// The name of the payment: SHA-256 of ``signedMessage``. Google's tokens have no identifier outside their
    /// ciphertext.
    public let transactionIdentifier: TransactionIdentifier
    /// The ciphertext, at least one byte.
    public let encryptedMessage: [UInt8]
    /// The sender's one-time public key: an uncompressed point of 65 bytes, which is on P-256.
    public let ephemeralPublicKey: [UInt8]
    /// The HMAC-SHA256 of ``encryptedMessage``, 32 bytes.
    public let tag: [UInt8]

    /// Parses Google's object, or the string with that object in which Google delivers it.
    ///
    /// - Throws: `unsupported_version`, which is checked first, or `malformed_token` with the member's name in
    ///   `details`.
    public init(json: JSONValue) throws(Refusal) {
        let token = try PaymentTokenMembers(Self.envelope(in: json), path: "token", specifiedBy: "Google")
        guard try token.string("protocolVersion").utf8.elementsEqual(Self.version.utf8) else {
            throw Refusal(
                .unsupportedVersion, "The payment token's protocolVersion is not supported; of Google Pay's, ECv2 is.")
        }
        try token.requireOnly(["protocolVersion", "signature", "intermediateSigningKey", "signedMessage"])
        intermediateKey = try GoogleIntermediateKey(token.members("intermediateSigningKey"))
        signature = try token.read("signature", GoogleForm.signature, decode: GoogleForm.signature(in:))

        let text = try token.string("signedMessage")
        signedMessage = Array(text.utf8)
        transactionIdentifier = TransactionIdentifier(sha256Of: signedMessage)
        let message = try GoogleForm.members(
            in: text, maximumSize: Self.maximumSignedMessageSize, path: "token.signedMessage")
        try message.requireOnly(["encryptedMessage", "ephemeralPublicKey", "tag"])
        encryptedMessage = try message.read("encryptedMessage", "base64 of at least one byte, with padding") { text in
            GoogleForm.bytes(in: text).flatMap { bytes in bytes.isEmpty ? nil : bytes }
        }
        ephemeralPublicKey = try message.read(
            "ephemeralPublicKey", "base64 of an uncompressed point on P-256, 65 bytes, with padding"
        ) { text in
            GoogleForm.bytes(in: text).flatMap { point in
                point.first == 4 && (try? SubjectPublicKeyInfo(.ec(point: point))) != nil ? point : nil
            }
        }
        tag = try message.read("tag", "base64 of 32 bytes, with padding") { text in
            GoogleForm.bytes(in: text).flatMap { bytes in bytes.count == 32 ? bytes : nil }
        }
    }

    /// The object: `json` itself, or the one in a string. An object inside a request was decoded with the request, and
    /// one in a string is decoded here, so the members are decoded once in both cases.
    private static func envelope(in json: JSONValue) throws(Refusal) -> JSONValue {
        guard let text = json.stringValue else { return json }
        do {
            return try JSONValue(parsing: text)
        } catch {
            throw .malformedToken("token is a string, but not of strict JSON: \(error)", specifiedBy: "Google")
        }
    }
}

/// The request's body is never printed, not even when a log message interpolates it.
extension GooglePayToken: Unprintable {}

/// The key that signs messages for some days, and the signatures of Google's root keys on it.
public struct GoogleIntermediateKey: Sendable, Equatable {
    /// The text that a root key signed, in UTF-8, after exactly one JSON decoding.
    let signedKey: [UInt8]
    /// The root keys' signatures over ``signedKey``: 1 to ``GooglePayToken/maximumSignatures``.
    let signatures: [[UInt8]]
    public let key: SubjectPublicKeyInfo
    /// The time from which the key counts no more.
    public let expiration: Date

    /// Reads the dictionary `intermediateSigningKey`. The signed text may have members that are not known here.
    init(_ members: PaymentTokenMembers) throws(Refusal) {
        try members.requireOnly(["signedKey", "signatures"])
        let texts = try members.value("signatures").arrayValue ?? []
        let signatures = texts.compactMap { element in element.stringValue.flatMap(GoogleForm.signature(in:)) }
        guard (1...GooglePayToken.maximumSignatures).contains(texts.count), signatures.count == texts.count else {
            throw .malformedToken(
                "\(members.path).signatures is not an array of 1 to \(GooglePayToken.maximumSignatures) texts, each "
                    + GoogleForm.signature, specifiedBy: "Google")
        }
        self.signatures = signatures
        let text = try members.string("signedKey")
        signedKey = Array(text.utf8)
        let signed = try GoogleForm.members(
            in: text, maximumSize: GooglePayToken.maximumSignedKeySize, path: "\(members.path).signedKey")
        key = try signed.read("keyValue", GoogleForm.key, decode: GoogleForm.key(in:))
        expiration = try signed.read("keyExpiration", GoogleForm.time, decode: GoogleForm.time(in:))
    }
}

/// The forms of texts in Google's JSON.
enum GoogleForm {
    static let signature = "base64 of 1 to \(GooglePayToken.maximumSignatureSize) bytes, with padding"
    static let key = "base64 of a P-256 SubjectPublicKeyInfo in DER, 91 bytes, with padding"
    static let time = "a string of 1 to 15 digits, the milliseconds since 1970"

    static func bytes(in text: String) -> [UInt8]? {
        Base64.decode(text, padding: .required)
    }

    static func signature(in text: String) -> [UInt8]? {
        bytes(in: text).flatMap { bytes in
            (1...GooglePayToken.maximumSignatureSize).contains(bytes.count) ? bytes : nil
        }
    }

    /// A key whose point is on the curve, in its only encoding.
    static func key(in text: String) -> SubjectPublicKeyInfo? {
        guard let key = bytes(in: text).flatMap({ der in try? SubjectPublicKeyInfo(der: der) }),
            case .ec(let point) = key.key, point.first == 4
        else { return nil }
        return key
    }

    static func time(in text: String) -> Date? {
        let digits = text.utf8
        guard (1...15).contains(digits.count),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let milliseconds = Int(text)
        else { return nil }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
    }

    /// The members of the object in a string that Google signed.
    static func members(in text: String, maximumSize: Int, path: String) throws(Refusal) -> PaymentTokenMembers {
        guard text.utf8.count <= maximumSize else {
            throw .malformedToken("\(path) has more than \(maximumSize) bytes", specifiedBy: "Google")
        }
        let json: JSONValue
        do {
            json = try JSONValue(parsing: text)
        } catch {
            throw .malformedToken("\(path) is not a string of strict JSON: \(error)", specifiedBy: "Google")
        }
        return try PaymentTokenMembers(json, path: path, specifiedBy: "Google")
    }
}
