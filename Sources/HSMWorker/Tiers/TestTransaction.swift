import Crypto
import CryptoExtras
import Foundation
import WorkerProtocol

/// A transaction made up here, whose content is known: whoever opens it has the private key and restores as Apple
/// does. Used to choose tiers, to test key pairs at load, and to tell a dead token from a stranger's bytes.
///
/// Encrypted by swift-crypto from end to end, not by the code that opens it.
struct TestTransaction: Sendable {
    let input: Decryption
    let plaintext: [UInt8]

    private static let otherInfo = Array("\u{0D}id-aes256-GCM trial".utf8)
    private static let vector = [UInt8](repeating: 0, count: 16)

    /// - Parameter ephemeral: EC only; a new one where nil.
    /// - Throws: ``UnsuitableKey`` when the public key does not encrypt.
    init(
        for publicKey: SubjectPublicKeyInfo, ephemeral: P256.KeyAgreement.PrivateKey? = nil
    ) throws(UnsuitableKey) {
        plaintext = (0..<32).map { _ in .random(in: .min ... .max) }
        do {
            switch publicKey.key {
            case .ec(let point):
                let (ephemeral, key) = try Self.agree(point, ephemeral ?? P256.KeyAgreement.PrivateKey())
                input = Decryption(
                    publicKeyHash: publicKey.publicKeyHash, scheme: .ecV1, keyMaterial: ephemeral,
                    otherInfo: Self.otherInfo, ciphertext: try Self.seal(plaintext, key))
            case .rsa(let modulus, let publicExponent):
                let key = SymmetricKey(size: .bits128)
                let encryption = try _RSA.Encryption.PublicKey(n: modulus, e: publicExponent)
                let wrapped = try encryption.encrypt(
                    unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: .PKCS1_OAEP_SHA256)
                input = Decryption(
                    publicKeyHash: publicKey.publicKeyHash, scheme: .rsaV1, keyMaterial: Array(wrapped), otherInfo: [],
                    ciphertext: try Self.seal(plaintext, key))
            }
        } catch {
            throw UnsuitableKey(reason: "nothing can be encrypted to the public key")
        }
    }

    /// A random AES-128 key, wrapped for an RSA key as Apple does, or with OAEP over SHA-1, which is a wrong padding where
    /// SHA-256 is asked for. Both are the same work.
    /// - Returns: nil where nothing can be encrypted to the key.
    static func wrappedKey(for publicKey: SubjectPublicKeyInfo, isPaddedWell: Bool) -> [UInt8]? {
        guard case .rsa(let modulus, let publicExponent) = publicKey.key else { return nil }
        let key = SymmetricKey(size: .bits128)
        let wrapped = try? _RSA.Encryption.PublicKey(n: modulus, e: publicExponent).encrypt(
            unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: isPaddedWell ? .PKCS1_OAEP_SHA256 : .PKCS1_OAEP)
        return wrapped.map { Array($0) }
    }

    private static func agree(
        _ point: [UInt8], _ ephemeral: P256.KeyAgreement.PrivateKey
    ) throws -> (ephemeralPublicKey: [UInt8], key: SymmetricKey) {
        let secret = try ephemeral.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(x963Representation: point))
        var hash = SHA256()
        hash.update(data: [0, 0, 0, 1] as [UInt8])
        unsafe secret.withUnsafeBytes { unsafe hash.update(bufferPointer: $0) }
        hash.update(data: otherInfo)
        return (Array(ephemeral.publicKey.x963Representation), SymmetricKey(data: hash.finalize()))
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let box = try AES.GCM.seal(plaintext, using: key, nonce: AES.GCM.Nonce(data: vector))
        return Array(box.ciphertext + box.tag)
    }
}
