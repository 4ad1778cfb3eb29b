import Crypto
import CryptoExtras
import Encodings
import FoundationEssentials
import KeyTypes
import SecretMemory

/// A kind of merchant key that a trial makes.
struct TrialKind: Sendable {
    let name: String
    let algorithm: KeyAlgorithm
    let use: KeyUse

    static let all = [
        TrialKind(name: "EC", algorithm: .ec, use: .processing),
        TrialKind(name: "RSA", algorithm: .rsa, use: .processing),
        TrialKind(name: "identity", algorithm: .rsa, use: .identity),
    ]
}

/// A new private key outside the HSM token, which a trial imports once and then forgets.
struct TrialSoftwareKey: ~Copyable {
    /// The PrivateKeyInfo (RFC 5958).
    let pkcs8: SecretBytes
    let publicKey: SubjectPublicKeyInfo

    init(_ algorithm: KeyAlgorithm) throws(UnsuitableKey) {
        switch algorithm {
        case .ec:
            let key = P256.KeyAgreement.PrivateKey()
            try self.init(
                key.derRepresentation, SubjectPublicKeyInfo(.ec(point: Array(key.publicKey.x963Representation))))
        case .rsa:
            guard let key = try? _RSA.Signing.PrivateKey(keySize: .bits2048) else {
                throw UnsuitableKey(reason: "no RSA key could be made")
            }
            try self.init(
                key.pkcs8DERRepresentation, SubjectPublicKeyInfo(der: Array(key.publicKey.derRepresentation)))
        }
    }

    private init(_ pkcs8: Data, _ publicKey: SubjectPublicKeyInfo) {
        self.pkcs8 = SecretBytes(copying: Array(pkcs8))
        self.publicKey = publicKey
    }
}

/// Certificates and certificate requests for a trial's keys, in DER.
enum TrialCertificates {
    /// A certificate (RFC 5280 §4.1) from an authority that exists for this call only.
    static func certificate(for publicKey: SubjectPublicKeyInfo) throws(UnsuitableKey) -> [UInt8] {
        let serialNumber = [UInt8(1)] + (0..<8).map { _ in UInt8.random(in: .min ... .max) }
        let validity = element(0x30, time("250101000000Z") + time("451231235959Z"))
        let body = element(
            0x30,
            element(0xA0, [0x02, 0x01, 0x02]) + element(0x02, serialNumber) + ecdsaWithSHA256 + name + validity + name
                + publicKey.der)
        guard let signature = try? P256.Signing.PrivateKey().signature(for: Data(body)) else {
            throw UnsuitableKey(reason: "no certificate could be made")
        }
        return element(0x30, body + ecdsaWithSHA256 + element(0x03, [0] + Array(signature.derRepresentation)))
    }

    /// The CertificationRequestInfo of PKCS#10 (RFC 2986 §4.1).
    static func requestInformation(for publicKey: SubjectPublicKeyInfo) -> [UInt8] {
        element(0x30, [0x02, 0x01, 0x00] + name + publicKey.der + [0xA0, 0x00])
    }

    /// The AlgorithmIdentifier of ecdsa-with-SHA256 (RFC 5758 §3.2).
    private static let ecdsaWithSHA256: [UInt8] = [
        0x30, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x03, 0x02,
    ]

    /// A Name with one commonName (2.5.4.3).
    private static let name = element(
        0x30,
        element(0x31, element(0x30, [0x06, 0x03, 0x55, 0x04, 0x03] + element(0x0C, Array(TrialObjects.label.utf8)))))

    private static func time(_ text: String) -> [UInt8] { element(0x17, Array(text.utf8)) }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default: [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
            }
        return [tag] + length + content
    }
}
