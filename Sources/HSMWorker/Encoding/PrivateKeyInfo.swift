import Crypto
import Foundation
import PKCS11
import SecretMemory

/// A merchant's private key from PKCS#8 (RFC 5958): P-256 (RFC 5915) or RSA (RFC 8017 §A.1.2), as a token takes it.
struct PrivateKeyInfo: ~Copyable {
    let publicKey: SubjectPublicKeyInfo.PublicKey
    /// EC: CKA_VALUE. RSA: private exponent, primes, exponents and coefficient.
    let secrets: SecretAttributes

    private static let ecAlgorithm: [UInt8] =
        [0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01] + EllipticCurve.p256Parameters
    private static let rsaAlgorithm: [UInt8] = [
        0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00,
    ]

    private init(_ publicKey: SubjectPublicKeyInfo.PublicKey, _ secrets: consuming SecretAttributes) {
        self.publicKey = publicKey
        self.secrets = secrets
    }

    init(pkcs8: consuming SecretBytes) throws(UnsuitableKey) {
        let der = SecretDER(bytes: pkcs8)
        do throws(SecretDER.Malformed) {
            var whole = 0..<der.bytes.count
            var info = try der.element(.sequence, in: &whole)
            let version = try der.element(.integer, in: &info)
            // v1, or v2, which adds a public key (RFC 5958 §2).
            guard der.holds([0], at: version) || der.holds([1], at: version) else { throw SecretDER.Malformed() }
            let algorithm = try der.element(.sequence, in: &info)
            var key = try der.element(.octetString, in: &info)
            var numbers = try der.element(.sequence, in: &key)
            guard whole.isEmpty, key.isEmpty else { throw SecretDER.Malformed() }
            if der.holds(Self.ecAlgorithm, at: algorithm) {
                self = try Self.ec(der, &numbers)
            } else if der.holds(Self.rsaAlgorithm, at: algorithm) {
                self = try Self.rsa(der, &numbers)
            } else {
                throw SecretDER.Malformed()
            }
        } catch {
            throw UnsuitableKey(reason: "the private key is not PKCS#8 in DER of an EC key on P-256 or an RSA key")
        }
    }

    /// ECPrivateKey ::= SEQUENCE { version, privateKey OCTET STRING, [0] …, [1] … }. Its own public key is not
    /// believed but computed.
    private static func ec(
        _ der: borrowing SecretDER, _ numbers: inout Range<Int>
    ) throws(SecretDER.Malformed) -> PrivateKeyInfo {
        guard der.holds([1], at: try der.element(.integer, in: &numbers)) else { throw SecretDER.Malformed() }
        let place = try der.element(.octetString, in: &numbers)
        let scalar = der.duplicate(place)
        let key = unsafe scalar.withUnsafeBytes { unsafe try? P256.KeyAgreement.PrivateKey(rawRepresentation: $0) }
        guard scalar.count == 32, let key else { throw SecretDER.Malformed() }
        var secrets = SecretAttributes(capacity: 32)
        secrets.append(.value, scalar)
        return PrivateKeyInfo(.ec(point: Array(key.publicKey.x963Representation)), secrets)
    }

    /// RSAPrivateKey ::= SEQUENCE { version, n, e, d, p, q, d mod (p-1), d mod (q-1), q⁻¹ mod p }.
    private static func rsa(
        _ der: borrowing SecretDER, _ numbers: inout Range<Int>
    ) throws(SecretDER.Malformed) -> PrivateKeyInfo {
        let version = try der.element(.integer, in: &numbers)
        guard der.holds([0], at: version) else { throw SecretDER.Malformed() }
        let modulus = der.array(try der.positiveInteger(in: &numbers))
        let publicExponent = der.array(try der.positiveInteger(in: &numbers))
        var secrets = SecretAttributes(capacity: numbers.count)
        for type: AttributeType in [.privateExponent, .prime1, .prime2, .exponent1, .exponent2, .coefficient] {
            let number = der.duplicate(try der.positiveInteger(in: &numbers))
            secrets.append(type, number)
        }
        guard numbers.isEmpty else { throw SecretDER.Malformed() }
        return PrivateKeyInfo(.rsa(modulus: modulus, publicExponent: publicExponent), secrets)
    }
}

extension SecretDER {
    /// A copy of what is public in a private key.
    fileprivate func array(_ place: Range<Int>) -> [UInt8] {
        unsafe bytes.withUnsafeBytes { unsafe Array($0[place]) }
    }
}
