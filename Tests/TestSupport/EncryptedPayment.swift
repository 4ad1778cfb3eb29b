import Crypto
import CryptoExtras
import Foundation

/// Payment data encrypted to a merchant's public key as Apple does it, without the signature around it: what a worker
/// gets. Made with swift-crypto alone.
public struct EncryptedPayment: Sendable {
    /// EC: the ephemeral public key, 65 bytes. RSA: the wrapped key, 256 bytes.
    public var keyMaterial: [UInt8]
    /// OtherInfo of the one-step KDF; empty for RSA.
    public var otherInfo: [UInt8]
    /// With the 16-byte tag at its end.
    public var ciphertext: [UInt8]
    public let plaintext: [UInt8]
    /// SHA-256 of the SubjectPublicKeyInfo.
    public var publicKeyHash: [UInt8]

    /// - Parameter subjectPublicKeyInfo: DER of a P-256 key.
    public init(ec subjectPublicKeyInfo: [UInt8], plaintext: [UInt8] = Self.randomPlaintext()) throws {
        let ephemeral = P256.KeyAgreement.PrivateKey()
        let secret = try ephemeral.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(derRepresentation: subjectPublicKeyInfo))
        otherInfo = Array("\u{0D}id-aes256-GCMApple".utf8) + Array(SHA256.hash(data: Array("merchant.test".utf8)))
        var hash = SHA256()
        hash.update(data: [0, 0, 0, 1] as [UInt8])
        unsafe secret.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
        hash.update(data: otherInfo)
        keyMaterial = Array(ephemeral.publicKey.x963Representation)
        ciphertext = try Self.seal(plaintext, SymmetricKey(data: hash.finalize()))
        publicKeyHash = Array(SHA256.hash(data: subjectPublicKeyInfo))
        self.plaintext = plaintext
    }

    /// - Parameters:
    ///   - subjectPublicKeyInfo: DER of an RSA key.
    ///   - keyByteCount: of the wrapped symmetric key; Apple's have 16.
    public init(
        rsa subjectPublicKeyInfo: [UInt8], plaintext: [UInt8] = Self.randomPlaintext(), keyByteCount: Int = 16,
        sha1: Bool = false
    ) throws {
        let key = SymmetricKey(size: SymmetricKeySize(bitCount: keyByteCount * 8))
        let wrapped = try _RSA.Encryption.PublicKey(derRepresentation: subjectPublicKeyInfo).encrypt(
            unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: sha1 ? .PKCS1_OAEP : .PKCS1_OAEP_SHA256)
        keyMaterial = Array(wrapped)
        otherInfo = []
        ciphertext = try Self.seal(plaintext, key)
        publicKeyHash = Array(SHA256.hash(data: subjectPublicKeyInfo))
        self.plaintext = plaintext
    }

    public static func randomPlaintext() -> [UInt8] {
        (0..<Int.random(in: 1...400)).map { _ in .random(in: .min ... .max) }
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let nonce = try AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16))
        let box = try AES.GCM.seal(plaintext, using: key, nonce: nonce)
        return Array(box.ciphertext + box.tag)
    }
}
