internal import Crypto
internal import CryptoExtras
internal import Encodings
internal import Foundation
public import KeyTypes
public import StrictJSON

/// The public half of a key that signs checkpoints: EC on P-256, or RSA-2048 with the public exponent 65537.
public struct CheckpointKey: Sendable {
    private enum Key: Sendable {
        case p256(P256.Signing.PublicKey)
        case rsa(_RSA.Signing.PublicKey)
    }

    /// SHA-256 of ``subjectPublicKeyInfo``.
    public let keyId: AuditDigest
    /// The SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7): 91 bytes for EC, 294 for RSA.
    public let subjectPublicKeyInfo: [UInt8]
    private let key: Key

    /// Takes an uncompressed point (SEC 1 §2.3.3, 65 bytes), as PKCS#11's CKA_EC_POINT contains it. Returns nil if it
    /// is not on the curve.
    public init?(point: [UInt8]) {
        guard let key = try? P256.Signing.PublicKey(x963Representation: point) else { return nil }
        self.init(.p256(key), Array(key.derRepresentation))
    }

    /// Reads the form in which workers report an audit key and ledgers store it: an uncompressed point on P-256, 65
    /// bytes, or the SubjectPublicKeyInfo of an RSA key.
    public init?(stored bytes: [UInt8]) {
        if bytes.count == 65 {
            self.init(point: bytes)
        } else {
            self.init(subjectPublicKeyInfo: bytes)
            guard case .rsa = key else { return nil }
        }
    }

    /// Reads one PEM block `PUBLIC KEY` (RFC 7468 §13). Returns nil if it contains any other key, or another encoding of
    /// an RSA key than that of ``subjectPublicKeyInfo``.
    public init?(pem: String) {
        if let key = try? P256.Signing.PublicKey(pemRepresentation: pem) {
            self.init(.p256(key), Array(key.derRepresentation))
        } else if pem.contains("-----BEGIN PUBLIC KEY-----"),
            let key = try? _RSA.Signing.PublicKey(pemRepresentation: pem)
        {
            self.init(subjectPublicKeyInfo: Array(key.derRepresentation))
        } else {
            return nil
        }
    }

    /// Reads a SubjectPublicKeyInfo in DER (RFC 5280 §4.1.2.7). Returns nil for any other key, and for any encoding other
    /// than that of ``subjectPublicKeyInfo``.
    public init?(subjectPublicKeyInfo: [UInt8]) {
        switch (try? SubjectPublicKeyInfo(der: subjectPublicKeyInfo))?.key {
        case .ec(let point): self.init(point: point)
        case .rsa(_, publicExponent: [1, 0, 1]):
            guard let key = try? _RSA.Signing.PublicKey(derRepresentation: subjectPublicKeyInfo) else { return nil }
            self.init(.rsa(key), subjectPublicKeyInfo)
        default: return nil
        }
    }

    private init(_ key: Key, _ subjectPublicKeyInfo: [UInt8]) {
        self.key = key
        self.subjectPublicKeyInfo = subjectPublicKeyInfo
        keyId = .of(subjectPublicKeyInfo)
    }

    /// One PEM block with a line feed at its end, as `audit public-key` prints it.
    public var pem: String {
        switch key {
        case .p256(let key): key.pemRepresentation + "\n"
        case .rsa(let key): key.pemRepresentation + "\n"
        }
    }

    /// The type of the key. Only signatures by algorithms of this type are valid under it.
    public var keyAlgorithm: KeyAlgorithm {
        switch key {
        case .p256: .ec
        case .rsa: .rsa
        }
    }

    /// Returns true if the checkpoint names this key's keyId and this key made its signature.
    public func verifies(_ signed: SignedCheckpoint) -> Bool {
        signed.checkpoint.keyId == keyId
            && verifies(signed.signature, by: signed.checkpoint.algorithm, of: signed.checkpoint.signedBytes)
    }

    /// Returns true if this key made the signature over the SHA-256 of `message`. False if the algorithm does not belong
    /// to the key's type.
    public func verifies(
        _ signature: CheckpointSignature, by algorithm: AuditSignatureAlgorithm, of message: [UInt8]
    ) -> Bool {
        switch (key, algorithm) {
        case (.p256(let key), .ecdsaP256):
            guard let parsed = try? P256.Signing.ECDSASignature(derRepresentation: signature.bytes) else {
                return false
            }
            return key.isValidSignature(parsed, for: Data(message))
        case (.rsa(let key), .rsaPSS): return Self.isValid(signature, of: message, key, .PSS)
        case (.rsa(let key), .rsaPKCS1): return Self.isValid(signature, of: message, key, .insecurePKCS1v1_5)
        case (.p256, .rsaPSS), (.p256, .rsaPKCS1), (.rsa, .ecdsaP256): return false
        }
    }

    private static func isValid(
        _ signature: CheckpointSignature, of message: [UInt8], _ key: _RSA.Signing.PublicKey,
        _ padding: _RSA.Signing.Padding
    ) -> Bool {
        key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: signature.bytes), for: Data(message), padding: padding)
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
    /// or if a block is not a key of ``CheckpointKey``.
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
