import Crypto
import CryptoExtras
import Encodings
import FoundationEssentials
import PKCS11
import WorkerProtocol

// Unsafe: Pointers are used only within the closures. The keys are throwaway keys of the test, so that copies do no
// harm.

/// The fault that a self-test found.
struct SelfTestFailure: Error, CustomStringConvertible {
    /// Part of a sentence for an operator.
    let description: String
    /// The call that failed; nil if all calls succeeded but their result was wrong.
    let call: CallError?

    init(_ description: String, _ call: CallError? = nil) {
        self.description = description
        self.call = call
    }

    /// Makes a test signature.
    /// - Parameter sign: Signs a message and verifies the signature. Returns nil if it does not verify.
    /// - Returns: nil if the signature is valid, otherwise the fault.
    static func ofSignature(_ sign: () throws(CallError) -> [UInt8]?) -> SelfTestFailure? {
        do throws(CallError) {
            return try sign() == nil ? SelfTestFailure("a signature that does not verify") : nil
        } catch {
            return SelfTestFailure(error.description, error)
        }
    }

    /// Returns a new message without meaning, so that its signature has no other use.
    static func messageToSign() -> [UInt8] {
        Array("paytokend tests this key: ".utf8) + (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }
}

extension RestorationTier {
    /// Opens one transaction that is known to be good.
    /// - Returns: nil if it opened, otherwise the fault.
    func openingFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        do throws(UnsuitableKey) {
            return failureToOpen(try TestTransaction(for: key.publicKey), with: key, in: &session)
        } catch {
            return SelfTestFailure(error.reason)
        }
    }

    /// Opens a test transaction, and checks that one with a wrong tag is refused.
    /// - Returns: nil if both succeeded, otherwise the fault.
    func selfTestFailure(with key: borrowing PrivateKeyEntry, in session: inout Session) -> SelfTestFailure? {
        let transaction: TestTransaction
        do throws(UnsuitableKey) {
            transaction = try TestTransaction(for: key.publicKey)
        } catch {
            return SelfTestFailure(error.reason)
        }
        if let failure = failureToOpen(transaction, with: key, in: &session) { return failure }
        var forged = transaction.input
        forged.ciphertext[forged.ciphertext.count - 1] ^= 1
        guard (try? open(forged, with: key, in: &session)) == nil else {
            return SelfTestFailure("a wrong tag was accepted")
        }
        return nil
    }

    /// Opens a test transaction with a test key pair, and checks that one with a wrong tag is refused. If the key pair
    /// is the published EC pair, also tests a shared secret that begins with a zero byte.
    func selfTestFailure(with key: borrowing TestKeyPair, in session: inout Session) -> SelfTestFailure? {
        let entry = key.entry
        if let failure = selfTestFailure(with: entry, in: &session) { return failure }
        guard scheme == .ecV1, key.isKnown, let ephemeral = KnownKeyPair.ephemeralForLeadingZero else { return nil }
        do throws(UnsuitableKey) {
            let transaction = try TestTransaction(for: entry.publicKey, ephemeral: ephemeral)
            return failureToOpen(transaction, with: entry, in: &session).map {
                SelfTestFailure("a shared secret that begins with a zero byte is cut short: \($0)", $0.call)
            }
        } catch {
            return SelfTestFailure(error.reason)
        }
    }

    private func failureToOpen(
        _ transaction: TestTransaction, with key: borrowing PrivateKeyEntry, in session: inout Session
    ) -> SelfTestFailure? {
        do throws(RestorationError) {
            guard try open(transaction.input, with: key, in: &session) == transaction.plaintext else {
                return SelfTestFailure("another plaintext came out")
            }
            return nil
        } catch {
            return switch error {
            case .hsmToken(let call), .refused(.some(let call)): SelfTestFailure(call.description, call)
            case .input, .refused(nil): SelfTestFailure("a well-formed transaction was not opened")
            }
        }
    }
}

/// A transaction with known content that this process encrypts to a merchant's public key. An HSM token that opens it
/// has the private key, and restores symmetric keys as Apple specifies. It is used to choose tiers and to test key
/// pairs when they are listed. It also shows whether the input or the HSM token caused an error.
///
/// swift-crypto encrypts it, independently of the code that opens it.
struct TestTransaction: Sendable {
    let input: Decryption
    let plaintext: [UInt8]

    static let otherInfo = Array("\u{0D}id-aes256-GCM trial".utf8)
    private static let vector = [UInt8](repeating: 0, count: 16)

    /// - Parameter ephemeral: The ephemeral private key, for EC only; nil to generate one.
    /// - Throws: ``UnsuitableKey`` if nothing can be encrypted to the public key.
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

    /// A random AES-128 key, wrapped for an RSA key as Apple does, or with OAEP over SHA-1, which is a wrong padding
    /// for SHA-256. Either takes the same work to make.
    /// - Returns: nil if nothing can be encrypted to the key.
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
        let key = unsafe secret.withUnsafeBytes { unsafe symmetricKey(secret: $0) }
        return (Array(ephemeral.publicKey.x963Representation), key)
    }

    /// The one-step KDF with ``otherInfo``.
    private static func symmetricKey(secret: UnsafeRawBufferPointer) -> SymmetricKey {
        var hash = SHA256()
        hash.update(data: [0, 0, 0, 1] as [UInt8])
        unsafe hash.update(bufferPointer: secret)
        hash.update(data: otherInfo)
        return SymmetricKey(data: hash.finalize())
    }

    /// Encrypts a new plaintext with the symmetric key of a known shared secret and ``otherInfo``.
    static func sealed(secret: [UInt8]) throws -> (plaintext: [UInt8], ciphertext: [UInt8]) {
        let plaintext = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
        let key = unsafe secret.withUnsafeBytes { unsafe symmetricKey(secret: $0) }
        return (plaintext, try seal(plaintext, key))
    }

    private static func seal(_ plaintext: [UInt8], _ key: SymmetricKey) throws -> [UInt8] {
        let box = try AES.GCM.seal(plaintext, using: key, nonce: AES.GCM.Nonce(data: vector))
        return Array(box.ciphertext + box.tag)
    }
}
