public import Crypto
internal import CryptoExtras
public import Encodings
internal import FoundationEssentials
public import WorkerProtocol

// Messages with which a key's private half proves itself. The worker tests keys with them, and the daemon proves keys
// with them (`KeyProving`). Nothing here opens or signs anything.

// Unsafe: Pointers are used only within the closures, which copy or hash the bytes of one key.

/// A transaction with known content that this process encrypts to a merchant's public key, as a wallet does. An HSM
/// token that opens it has the private key, and restores symmetric keys as Apple specifies.
///
/// The worker uses it to choose tiers, to test key pairs when they are listed, and to find out whether the input or the
/// HSM token caused an error. The daemon uses it to prove a key. swift-crypto encrypts it, independently of the code
/// that opens it, and wipes the ephemeral private key, the shared secret and the symmetric key.
public struct TestTransaction: Sendable {
    /// The encrypted message, as a worker receives a payment token's data.
    public let input: Decryption
    /// 32 random bytes. They mean nothing, so they need no protection.
    public let plaintext: [UInt8]

    /// OtherInfo of transactions for a key that has no merchant, such as a test pair.
    public static let trialOtherInfo = Array("\u{0D}id-aes256-GCM trial".utf8)
    private static let vector = [UInt8](repeating: 0, count: 16)

    /// - Parameters:
    ///   - scheme: the encryption; nil for Apple's with a key of this type.
    ///   - otherInfo: OtherInfo of the one-step KDF, without the counter, for EC_v1 only.
    ///   - ephemeral: The ephemeral private key, for EC only; nil to generate one.
    /// - Throws: ``UnsuitableKey`` if nothing can be encrypted to the public key.
    public init(
        for publicKey: SubjectPublicKeyInfo, _ scheme: RestorationScheme? = nil,
        otherInfo: [UInt8] = trialOtherInfo, ephemeral: P256.KeyAgreement.PrivateKey? = nil
    ) throws(UnsuitableKey) {
        plaintext = (0..<32).map { _ in .random(in: .min ... .max) }
        do {
            switch (publicKey.key, scheme) {
            case (.ec(let point), nil), (.ec(let point), .ecV1):
                let (ephemeral, secret) = try Self.agree(point, ephemeral ?? P256.KeyAgreement.PrivateKey())
                let key = unsafe secret.withUnsafeBytes { unsafe Self.symmetricKey(secret: $0, otherInfo) }
                input = Decryption(
                    publicKeyHash: publicKey.publicKeyHash, scheme: .ecV1, keyMaterial: ephemeral,
                    otherInfo: otherInfo, ciphertext: try Self.seal(plaintext, key))
            case (.ec(let point), .ecV2):
                let (ephemeral, secret) = try Self.agree(point, ephemeral ?? P256.KeyAgreement.PrivateKey())
                input = Decryption(
                    publicKeyHash: publicKey.publicKeyHash, scheme: .ecV2, keyMaterial: ephemeral, otherInfo: [],
                    ciphertext: try Self.sealForGooglePay(plaintext, secret, ephemeral))
            case (.rsa(let modulus, let publicExponent), nil), (.rsa(let modulus, let publicExponent), .rsaV1):
                let key = SymmetricKey(size: .bits128)
                let encryption = try _RSA.Encryption.PublicKey(n: modulus, e: publicExponent)
                let wrapped = try encryption.encrypt(
                    unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: .PKCS1_OAEP_SHA256)
                input = Decryption(
                    publicKeyHash: publicKey.publicKeyHash, scheme: .rsaV1, keyMaterial: Array(wrapped), otherInfo: [],
                    ciphertext: try Self.seal(plaintext, key))
            case (.ec, .rsaV1), (.rsa, .ecV1), (.rsa, .ecV2):
                throw UnsuitableKey(reason: "the scheme is for keys of another type")
            }
        } catch {
            throw UnsuitableKey(reason: "nothing can be encrypted to the public key")
        }
    }

    /// A random AES-128 key, wrapped for an RSA key as Apple does, or with OAEP over SHA-1, which is a wrong padding
    /// for SHA-256. Either takes the same work to make.
    /// - Returns: nil if nothing can be encrypted to the key.
    public static func wrappedKey(for publicKey: SubjectPublicKeyInfo, isPaddedWell: Bool) -> [UInt8]? {
        guard case .rsa(let modulus, let publicExponent) = publicKey.key else { return nil }
        let key = SymmetricKey(size: .bits128)
        let wrapped = try? _RSA.Encryption.PublicKey(n: modulus, e: publicExponent).encrypt(
            unsafe key.withUnsafeBytes { unsafe Data($0) }, padding: isPaddedWell ? .PKCS1_OAEP_SHA256 : .PKCS1_OAEP)
        return wrapped.map { Array($0) }
    }

    private static func agree(
        _ point: [UInt8], _ ephemeral: P256.KeyAgreement.PrivateKey
    ) throws -> (ephemeralPublicKey: [UInt8], secret: SharedSecret) {
        let secret = try ephemeral.sharedSecretFromKeyAgreement(
            with: P256.KeyAgreement.PublicKey(x963Representation: point))
        return (Array(ephemeral.publicKey.x963Representation), secret)
    }

    /// ECv2 of Google's "Payment data cryptography for merchants".
    private static func sealForGooglePay(
        _ plaintext: [UInt8], _ secret: SharedSecret, _ ephemeralPublicKey: [UInt8]
    ) throws -> [UInt8] {
        let material = unsafe secret.withUnsafeBytes { unsafe SymmetricKey(data: ephemeralPublicKey + Array($0)) }
        let keys = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: material, info: Array("Google".utf8), outputByteCount: 64)
        let (encryption, authentication) = unsafe keys.withUnsafeBytes { bytes in
            unsafe (SymmetricKey(data: bytes.prefix(32)), SymmetricKey(data: bytes.suffix(32)))
        }
        let ciphertext = Array(
            try AES._CTR.encrypt(plaintext, using: encryption, nonce: AES._CTR.Nonce(nonceBytes: vector)))
        return ciphertext + Array(HMAC<SHA256>.authenticationCode(for: ciphertext, using: authentication))
    }

    /// The one-step KDF (SP 800-56A §5.8.2.1).
    private static func symmetricKey(secret: UnsafeRawBufferPointer, _ otherInfo: [UInt8]) -> SymmetricKey {
        var hash = SHA256()
        hash.update(data: [0, 0, 0, 1] as [UInt8])
        unsafe hash.update(bufferPointer: secret)
        hash.update(data: otherInfo)
        return SymmetricKey(data: hash.finalize())
    }

    /// Encrypts a new plaintext with the symmetric key of a known shared secret and ``trialOtherInfo``.
    public static func sealed(secret: [UInt8]) throws -> (plaintext: [UInt8], ciphertext: [UInt8]) {
        let plaintext = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        let key = unsafe secret.withUnsafeBytes { unsafe symmetricKey(secret: $0, trialOtherInfo) }
        return (plaintext, try seal(plaintext, key))
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let box = try AES.GCM.seal(plaintext, using: key, nonce: AES.GCM.Nonce(data: vector))
        return Array(box.ciphertext + box.tag)
    }
}
