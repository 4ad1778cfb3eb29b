import Crypto
import CryptoExtras
import Foundation

/// Encrypts payment data as the Secure Element does. This is the inverse of Apple's "Restoring the symmetric key".
enum PaymentSealing {
    /// The result of an encryption: the header's key material, and ciphertext ‖ tag.
    struct Sealed {
        var keyMaterial: [UInt8]
        var data: [UInt8]
    }

    /// The initialization vector of both versions, which is 16 zero bytes.
    private static let initializationVector = [UInt8](repeating: 0, count: 16)

    /// Encrypts for EC_v1 with ephemeral ECDH on P-256, the one-step KDF with SHA-256, and AES-256-GCM.
    ///
    /// - Parameter leadingZero: true to try ephemeral keys until the shared secret Z begins with a zero byte, as one
    ///   in 256 does. Programs that drop this byte fail to decrypt.
    static func ecV1(
        _ plaintext: [UInt8], merchant: Merchant, merchantIdentifier: String, leadingZero: Bool = false
    ) throws -> Sealed {
        guard let merchantKey = try? P256.KeyAgreement.PublicKey(derRepresentation: merchant.subjectPublicKeyInfo)
        else { throw ForgeFailure.recipe("an EC_v1 token needs a merchant with a P-256 key") }
        var ephemeral = P256.KeyAgreement.PrivateKey()
        var sharedSecret = try sharedBytes(ephemeral, merchantKey)
        while leadingZero, sharedSecret[0] != 0 {
            ephemeral = P256.KeyAgreement.PrivateKey()
            sharedSecret = try sharedBytes(ephemeral, merchantKey)
        }
        // The one-step KDF of NIST SP 800-56C is SHA-256(counter ‖ Z ‖ AlgorithmID ‖ PartyUInfo ‖ PartyVInfo).
        var derivation = SHA256()
        derivation.update(data: [0, 0, 0, 1])
        derivation.update(data: sharedSecret)
        derivation.update(data: [0x0d] + Array("id-aes256-GCM".utf8))
        derivation.update(data: Array("Apple".utf8))
        derivation.update(data: Array(SHA256.hash(data: Array(merchantIdentifier.utf8))))
        let key = SymmetricKey(data: Array(derivation.finalize()))
        return Sealed(
            keyMaterial: ephemeralKeyInfo(point: Array(ephemeral.publicKey.x963Representation)),
            data: try seal(plaintext, key))
    }

    /// Encrypts for RSA_v1 with AES-128-GCM under a random key. RSA-OAEP wraps the key, with SHA-256 as digest and for
    /// MGF1, and with an empty label.
    static func rsaV1(
        _ plaintext: [UInt8], merchant: Merchant, wrap: (_ key: [UInt8]) throws -> [UInt8]
    ) throws -> Sealed {
        let key = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
        return Sealed(keyMaterial: try wrap(key), data: try seal(plaintext, SymmetricKey(data: key)))
    }

    /// Wraps `key` with RSA-OAEP by the library.
    static func wrap(_ key: [UInt8], to merchant: Merchant) throws -> [UInt8] {
        guard let merchantKey = try? _RSA.Encryption.PublicKey(derRepresentation: merchant.subjectPublicKeyInfo)
        else { throw ForgeFailure.recipe("an RSA_v1 token needs a merchant with an RSA key") }
        return Array(try merchantKey.encrypt(key, padding: .PKCS1_OAEP_SHA256))
    }

    /// Wraps `key` with PKCS#1 v1.5, which Apple does not use.
    static func wrapWithPKCS1(_ key: [UInt8], to merchant: Merchant) throws -> [UInt8] {
        let merchantKey = try _RSA.Encryption.PublicKey(derRepresentation: merchant.subjectPublicKeyInfo)
        return Array(try merchantKey.encrypt(key, padding: ._WEAK_AND_INSECURE_PKCS_V1_5))
    }

    /// Returns a P-256 SubjectPublicKeyInfo with `point`, which may be invalid.
    static func ephemeralKeyInfo(point: [UInt8]) -> [UInt8] {
        DEREncoder.sequence(
            DEREncoder.sequence(
                DEREncoder.objectIdentifier(OID.ecPublicKey), DEREncoder.objectIdentifier(OID.prime256v1)),
            DEREncoder.bitString(point))
    }

    /// Returns all 32 bytes of the shared secret Z, which swift-crypto exposes only through a pointer.
    private static func sharedBytes(
        _ ephemeral: P256.KeyAgreement.PrivateKey, _ merchant: P256.KeyAgreement.PublicKey
    ) throws -> [UInt8] {
        let sharedSecret = try ephemeral.sharedSecretFromKeyAgreement(with: merchant)
        return unsafe sharedSecret.withUnsafeBytes { unsafe Array($0) }
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let box = try AES.GCM.seal(plaintext, using: key, nonce: AES.GCM.Nonce(data: initializationVector))
        return Array(box.ciphertext) + Array(box.tag)
    }
}
