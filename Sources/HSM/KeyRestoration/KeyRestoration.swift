internal import CLibcrypto
internal import Crypto
public import SecretMemory

/// The only error for payment data that does not open. Its causes in the input are a point off the curve, a wrapped
/// key that does not open, a wrong tag or a wrong size. It does not name the cause, on purpose: an attacker who
/// learned which check failed could use the answer as an oracle.
///
/// This target is the worker's part of restoring a payment's symmetric key, for HSM tokens that do not do all of it
/// (tier C). It also checks the ephemeral point in every tier. Only HSMWorker calls it. EC_v1: ``P256Point``, then
/// ``OneStepKDF``. RSA_v1 on HSM tokens that only do the bare RSA operation: ``OAEP``. Both: ``GCM``. Secrets are kept
/// in locked memory, and no operation takes a time that depends on them.
public struct RestorationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    public init() {}

    public var description: String { "the payment data could not be decrypted" }
}

/// A public key on P-256 (FIPS 186-5, SP 800-186 §3.2.1.3) that was checked: it is on the curve and is not the point
/// at infinity. An ECDH with a point off the curve would reveal the private key bit by bit, and not every HSM token
/// checks.
public struct P256Point: Sendable, Hashable {
    /// The uncompressed form of SEC 1 §2.3.3, 65 bytes: 0x04 ‖ x ‖ y.
    public let bytes: [UInt8]

    /// Takes the uncompressed form and no other.
    public init(uncompressed bytes: [UInt8]) throws(RestorationFailure) {
        guard bytes.count == 65, bytes[0] == 0x04,
            (try? P256.KeyAgreement.PublicKey(x963Representation: bytes)) != nil
        else { throw RestorationFailure() }
        self.bytes = bytes
    }
}

/// The one-step key derivation of SP 800-56A rev. 3 §5.8.2.1 (SP 800-56C rev. 2 §4) with SHA-256 as its hash.
public enum OneStepKDF {
    /// SHA-256(00 00 00 01 ‖ Z ‖ OtherInfo): one round of the KDF, 32 bytes.
    ///
    /// Apple's EC_v1 takes the whole of it as the AES-256 key. The counter comes first, unlike in ANSI X9.63's KDF.
    /// - Parameters:
    ///   - z: The shared secret with all its leading zeros: 32 bytes for P-256.
    ///   - otherInfo: The context, public.
    public static func sha256(z: borrowing SecretBytes, otherInfo: [UInt8]) throws(RestorationFailure) -> SecretBytes {
        let counter: [UInt8] = [0, 0, 0, 1]
        var key = SecretBytes(count: 32)
        let done = unsafe key.withUnsafeMutableBytes { key in
            unsafe z.withUnsafeBytes { z in
                unsafe clibcrypto_sha256(
                    counter, counter.count, z.baseAddress?.assumingMemoryBound(to: UInt8.self), z.count, otherInfo,
                    otherInfo.count, key.baseAddress?.assumingMemoryBound(to: UInt8.self))
            }
        }
        // It fails only for want of memory.
        guard done == 1 else { throw RestorationFailure() }
        return key
    }
}

/// The decoding of RSA-OAEP (RFC 8017 §7.1.2, step 3) for HSM tokens that only do the bare RSA operation.
public enum OAEP {
    /// Decodes in constant time, with SHA-256 as hash and in MGF1, and the empty label. Neither the answer nor the
    /// time reveals the kind or the place of a wrong padding (Manger's attack).
    /// - Parameters:
    ///   - block: The RSA operation's result with all its leading zeros.
    ///   - modulusByteCount: The size of the key's modulus in bytes; a block of another size is refused.
    /// - Returns: The message, 0 to `modulusByteCount` − 66 bytes.
    public static func decodeSHA256(
        block: borrowing SecretBytes, modulusByteCount: Int
    ) throws(RestorationFailure) -> SecretBytes {
        guard block.count == modulusByteCount else { throw RestorationFailure() }
        var message = SecretBytes(count: block.count)
        let count = unsafe message.withUnsafeMutableBytes { message in
            unsafe block.withUnsafeBytes { block in
                unsafe clibcrypto_oaep_sha256_decode(
                    block.baseAddress?.assumingMemoryBound(to: UInt8.self), block.count,
                    message.baseAddress?.assumingMemoryBound(to: UInt8.self), message.count)
            }
        }
        guard count >= 0 else { throw RestorationFailure() }
        message.shrink(to: Int(count))
        return message
    }
}

/// AES-GCM decryption (SP 800-38D §7.2) with a tag of 16 bytes at the ciphertext's end and no associated data.
///
/// It uses libcrypto and not swift-crypto, because libcrypto wipes the key schedule and writes the plaintext where the
/// caller wants it, into one buffer.
public enum GCM {
    /// The initialisation vector of Apple's payment tokens: 16 zero bytes. It is sound only because each payment
    /// token's key is used once.
    public static let paymentTokenVector = [UInt8](repeating: 0, count: 16)
    /// The tag's size in bytes.
    public static let tagByteCount = 16

    /// Checks the tag and decrypts.
    /// - Parameters:
    ///   - ciphertextAndTag: At least 16 bytes.
    ///   - key: 16 or 32 bytes; a key of another size opens nothing.
    ///   - initializationVector: 1 to 16 bytes.
    /// - Returns: The plaintext; no part of it is returned when the tag is wrong.
    public static func open(
        _ ciphertextAndTag: [UInt8], key: borrowing SecretBytes,
        initializationVector: [UInt8] = paymentTokenVector
    ) throws(RestorationFailure) -> [UInt8] {
        guard ciphertextAndTag.count >= tagByteCount else { throw RestorationFailure() }
        let count = ciphertextAndTag.count - tagByteCount
        var plaintext = [UInt8](repeating: 0, count: count)
        let opened = unsafe key.withUnsafeBytes { key in
            unsafe ciphertextAndTag.withUnsafeBufferPointer { input in
                unsafe plaintext.withUnsafeMutableBufferPointer { plaintext in
                    let start = unsafe input.baseAddress.unsafelyUnwrapped
                    return unsafe clibcrypto_aes_gcm_open(
                        key.baseAddress?.assumingMemoryBound(to: UInt8.self), key.count, initializationVector,
                        initializationVector.count, start, count, start + count, plaintext.baseAddress)
                }
            }
        }
        guard opened == 1 else { throw RestorationFailure() }
        return plaintext
    }
}
