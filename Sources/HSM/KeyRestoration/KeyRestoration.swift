internal import CLibcrypto
internal import Crypto
public import SecretMemory

// Unsafe: The C functions receive each buffer with its length, and keep no pointer. Guards check the lengths that
// they assume.

/// The only error for payment data that cannot be decrypted. Causes in the input are a point off the curve, a wrapped
/// key that cannot be unwrapped, a wrong tag and a wrong size. The error deliberately does not name the cause: an
/// attacker who learned which check failed could use the answer as an oracle.
///
/// This target restores a payment's symmetric key in the worker, for HSM tokens that cannot do all of it (tier C). It
/// also checks the ephemeral point in every tier. Only HSMWorker calls it. EC_v1 uses ``P256Point``, then
/// ``OneStepKDF``. RSA_v1 uses ``OAEP`` on HSM tokens that can do only the bare RSA operation. Both use ``GCM``. Google
/// Pay's ECv2 uses ``P256Point`` and ``GooglePayMessage``.
/// Secrets are kept in locked memory, and the time of an operation does not depend on them.
public struct RestorationFailure: Error, Sendable, Hashable, CustomStringConvertible {
    public init() {}

    public var description: String { "the payment data could not be decrypted" }
}

/// A checked public key on P-256 (FIPS 186-5, SP 800-186 §3.2.1.3): a point on the curve other than the point at
/// infinity. An ECDH with a point off the curve could reveal the private key, and not every HSM token checks.
public struct P256Point: Sendable, Hashable {
    /// The uncompressed form of SEC 1 §2.3.3, 65 bytes: 0x04 ‖ x ‖ y.
    public let bytes: [UInt8]

    /// Accepts only the uncompressed form. Throws if the point is not on the curve.
    public init(uncompressed bytes: [UInt8]) throws(RestorationFailure) {
        guard bytes.count == 65, bytes[0] == 0x04,
            (try? P256.KeyAgreement.PublicKey(x963Representation: bytes)) != nil
        else { throw RestorationFailure() }
        self.bytes = bytes
    }
}

/// The one-step key derivation function of SP 800-56A rev. 3 §5.8.2.1 (SP 800-56C rev. 2 §4) with SHA-256.
public enum OneStepKDF {
    /// Returns SHA-256(00 00 00 01 ‖ Z ‖ OtherInfo): one round of the function, 32 bytes.
    ///
    /// Apple's EC_v1 uses all 32 bytes as the AES-256 key. The counter comes first, unlike in the KDF of ANSI X9.63.
    /// - Parameters:
    ///   - z: The shared secret with all its leading zeros: 32 bytes for P-256.
    ///   - otherInfo: The context of the derivation, which is public.
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
        // The digest fails only if memory cannot be allocated.
        guard done == 1 else { throw RestorationFailure() }
        return key
    }
}

/// The decoding of RSA-OAEP (RFC 8017 §7.1.2, step 3) for HSM tokens that can do only the bare RSA operation.
public enum OAEP {
    /// Decodes a block in constant time. The hash, also in MGF1, is SHA-256, and the label is empty. Neither the error
    /// nor the time shows an attacker which part of the padding was wrong (Manger's attack).
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
        // The rest of the buffer is wiped in either case. Wiping it only for a message would take time that shows a
        // correct padding.
        message.shrink(to: max(0, Int(count)))
        guard count >= 0 else { throw RestorationFailure() }
        return message
    }
}

/// AES-GCM decryption (SP 800-38D §7.2) with a tag of 16 bytes at the ciphertext's end and no associated data.
///
/// It uses libcrypto rather than swift-crypto, because libcrypto wipes the key schedule and writes the plaintext
/// directly into the caller's buffer.
public enum GCM {
    /// The initialisation vector of Apple's payment tokens: 16 zero bytes. A fixed vector is safe only because each
    /// payment token's key is used once.
    public static let paymentTokenVector = [UInt8](repeating: 0, count: 16)
    /// The tag's size in bytes.
    public static let tagByteCount = 16

    /// Checks the tag and decrypts.
    /// - Parameters:
    ///   - ciphertextAndTag: The ciphertext, followed by its tag: at least 16 bytes.
    ///   - key: The AES key, 16 or 32 bytes. Any other size throws.
    ///   - initializationVector: The vector, 1 to 16 bytes.
    /// - Returns: The plaintext. Nothing is returned if the tag is wrong.
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
