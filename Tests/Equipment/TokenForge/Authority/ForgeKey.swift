public import Crypto
public import CryptoExtras
import Foundation

public enum ForgeKeyType: String, Sendable, CaseIterable {
    case p256, p384, rsa2048
}

/// A private key. It signs certificates or payment tokens, or belongs to a merchant and decrypts.
public enum ForgeKey: Sendable {
    case p256(P256.Signing.PrivateKey)
    case p384(P384.Signing.PrivateKey)
    case rsa(_RSA.Signing.PrivateKey)

    public init(generating type: ForgeKeyType) throws {
        switch type {
        case .p256: self = .p256(P256.Signing.PrivateKey())
        case .p384: self = .p384(P384.Signing.PrivateKey())
        case .rsa2048: self = .rsa(try _RSA.Signing.PrivateKey(keySize: .bits2048))
        }
    }

    /// Reads a key from PEM text (PKCS#8, SEC 1 or PKCS#1).
    public init(pem: String) throws(ForgeFailure) {
        if let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) {
            self = .p256(key)
        } else if let key = try? P384.Signing.PrivateKey(pemRepresentation: pem) {
            self = .p384(key)
        } else if let key = try? _RSA.Signing.PrivateKey(pemRepresentation: pem) {
            self = .rsa(key)
        } else {
            throw .key("the PEM text holds no P-256, P-384 or RSA private key of 2048 bits or more")
        }
    }

    /// The public key's SubjectPublicKeyInfo in DER.
    public var subjectPublicKeyInfo: [UInt8] {
        switch self {
        case .p256(let key): Array(key.publicKey.derRepresentation)
        case .p384(let key): Array(key.publicKey.derRepresentation)
        case .rsa(let key): Array(key.publicKey.derRepresentation)
        }
    }

    /// The private key as PKCS#8 PrivateKeyInfo in DER (RFC 5208).
    public var pkcs8: [UInt8] {
        switch self {
        case .p256(let key): Array(key.derRepresentation)
        case .p384(let key): Array(key.derRepresentation)
        case .rsa(let key): Array(key.pkcs8DERRepresentation)
        }
    }

    /// The private key as PKCS#8 PEM.
    public var pem: String { ForgePEM.text(pkcs8, label: "PRIVATE KEY") }

    /// The SHA-1 of the public key's bits, for the subjectKeyIdentifier extension (RFC 5280 §4.2.1.2).
    var keyIdentifier: [UInt8] { SubjectPublicKey.keyIdentifier(of: subjectPublicKeyInfo) }

    /// Signs `message` with SHA-256. The result is ECDSA in DER, or RSA PKCS#1 v1.5.
    func signature(of message: [UInt8]) throws -> [UInt8] { try signature(for: SHA256.hash(data: message)) }

    /// Signs `message` with SHA-1, which verifiers must refuse.
    func signatureWithSHA1(of message: [UInt8]) throws -> [UInt8] {
        try signature(for: Insecure.SHA1.hash(data: message))
    }

    private func signature(for digest: some Digest) throws -> [UInt8] {
        switch self {
        case .p256(let key): Array(try key.signature(for: digest).derRepresentation)
        case .p384(let key): Array(try key.signature(for: digest).derRepresentation)
        case .rsa(let key): Array(try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation)
        }
    }

    /// The AlgorithmIdentifier of ``signature(of:)``: ecdsa-with-SHA256 without parameters, or sha256WithRSAEncryption
    /// with NULL.
    var signatureAlgorithm: [UInt8] {
        switch self {
        case .p256, .p384: DEREncoder.sequence(DEREncoder.objectIdentifier(OID.ecdsaWithSHA256))
        case .rsa: DEREncoder.sequence(DEREncoder.objectIdentifier(OID.sha256WithRSAEncryption), DEREncoder.null)
        }
    }
}

/// Values computed from the bytes of a SubjectPublicKeyInfo.
enum SubjectPublicKey {
    /// Returns the SHA-1 of the BIT STRING's content, without the octet that counts unused bits.
    static func keyIdentifier(of subjectPublicKeyInfo: [UInt8]) -> [UInt8] {
        Array(Insecure.SHA1.hash(data: bits(of: subjectPublicKeyInfo)))
    }

    /// Returns the content of the BIT STRING, which follows the outer header and the AlgorithmIdentifier.
    private static func bits(of subjectPublicKeyInfo: [UInt8]) -> [UInt8] {
        let outer = content(subjectPublicKeyInfo[...])
        let algorithm = content(outer)
        return Array(content(outer[algorithm.endIndex...]).dropFirst())
    }

    private static func content(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let lengthIndex = bytes.startIndex + 1
        guard bytes[lengthIndex] & 0x80 != 0 else {
            return bytes[(lengthIndex + 1)..<(lengthIndex + 1 + Int(bytes[lengthIndex]))]
        }
        let octets = Int(bytes[lengthIndex] & 0x7f)
        let length = bytes[(lengthIndex + 1)..<(lengthIndex + 1 + octets)].reduce(0) { $0 << 8 | Int($1) }
        return bytes[(lengthIndex + 1 + octets)..<(lengthIndex + 1 + octets + length)]
    }
}
