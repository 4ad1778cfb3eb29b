internal import Crypto
internal import Encodings
internal import Foundation
public import StrictJSON

/// The public half of a key that signs checkpoints: ECDSA on P-256.
public struct CheckpointKey: Sendable {
    /// SHA-256 of ``subjectPublicKeyInfo``.
    public let keyId: AuditDigest
    private let key: P256.Signing.PublicKey

    /// Takes an uncompressed point (SEC 1 §2.3.3, 65 bytes), as PKCS#11's CKA_EC_POINT contains it. Returns nil if it
    /// is not on the curve.
    public init?(point: [UInt8]) {
        guard let key = try? P256.Signing.PublicKey(x963Representation: point) else { return nil }
        self.init(key)
    }

    /// Reads one PEM block `PUBLIC KEY` (RFC 7468 §13). Returns nil if it contains anything but a point on P-256.
    public init?(pem: String) {
        guard let key = try? P256.Signing.PublicKey(pemRepresentation: pem) else { return nil }
        self.init(key)
    }

    /// Reads a SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7). Returns nil for a key that is not on P-256, and for any
    /// encoding other than that of ``subjectPublicKeyInfo``.
    public init?(subjectPublicKeyInfo: [UInt8]) {
        guard let key = try? P256.Signing.PublicKey(derRepresentation: subjectPublicKeyInfo) else { return nil }
        self.init(key)
        guard self.subjectPublicKeyInfo == subjectPublicKeyInfo else { return nil }
    }

    private init(_ key: P256.Signing.PublicKey) {
        self.key = key
        keyId = .of(key.derRepresentation)
    }

    /// The key's SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7), 91 bytes.
    public var subjectPublicKeyInfo: [UInt8] { Array(key.derRepresentation) }

    /// One PEM block with a line feed at its end, as `audit public-key` prints it.
    public var pem: String { key.pemRepresentation + "\n" }

    /// Returns true if the checkpoint names this key's keyId and this key made its signature.
    public func verifies(_ signed: SignedCheckpoint) -> Bool {
        signed.checkpoint.keyId == keyId && verifies(signed.signature, of: signed.checkpoint.signedBytes)
    }

    /// Returns true if this key made the signature over the SHA-256 of `message`.
    public func verifies(_ signature: CheckpointSignature, of message: [UInt8]) -> Bool {
        guard let signature = try? P256.Signing.ECDSASignature(derRepresentation: signature.der) else { return false }
        return key.isValidSignature(signature, for: Data(message))
    }
}

extension CheckpointKey: Hashable {
    public static func == (left: CheckpointKey, right: CheckpointKey) -> Bool { left.keyId == right.keyId }

    public func hash(into hasher: inout Hasher) { hasher.combine(keyId) }

    /// Writes the members as in records: `keyId`, and `publicKey`, the base64 of ``subjectPublicKeyInfo``.
    func write(into writer: inout JSONWriter) {
        writer.member("keyId", keyId.hex)
        writer.member("publicKey", Base64.encode(subjectPublicKeyInfo))
    }

    /// Reads the members that `write(into:)` wrote. Returns nil unless both are present and the keyId matches the key.
    public init?(recorded object: JSONObject) {
        guard let text = object["publicKey"]?.stringValue, let der = Base64.decode(text, padding: .required),
            let key = CheckpointKey(subjectPublicKeyInfo: der), key.keyId.hex == object["keyId"]?.stringValue
        else { return nil }
        self = key
    }
}

/// The public keys that an auditor trusts: several if the key was changed, or if each node has its own.
public struct CheckpointKeys: Sendable {
    private let keys: [AuditDigest: CheckpointKey]

    public init(_ keys: [CheckpointKey]) {
        self.keys = Dictionary(keys.map { ($0.keyId, $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// Reads all blocks `PUBLIC KEY` of a PEM text; any text around them is ignored. Returns nil if there is no block,
    /// or if a block is not a public key on P-256.
    public init?(pem text: String) {
        let (begin, end) = ("-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----")
        var keys: [CheckpointKey] = []
        let text = text.replacingOccurrences(of: "\r\n", with: "\n")
        var rest = text[...]
        while let start = rest.range(of: begin), let stop = rest[start.upperBound...].range(of: end) {
            guard let key = CheckpointKey(pem: String(rest[start.lowerBound..<stop.upperBound])) else { return nil }
            keys.append(key)
            rest = rest[stop.upperBound...]
        }
        guard !keys.isEmpty else { return nil }
        self.init(keys)
    }

    public subscript(keyId: AuditDigest) -> CheckpointKey? { keys[keyId] }

    /// Returns the keys of both sets. A signature by any of them is then valid.
    public func joined(by others: CheckpointKeys) -> CheckpointKeys {
        CheckpointKeys(Array(keys.values) + Array(others.keys.values))
    }
}
