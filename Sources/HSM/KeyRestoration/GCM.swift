internal import CLibcrypto
public import SecretMemory

/// AES-GCM decryption (SP 800-38D §7.2) with a tag of 16 bytes at the ciphertext's end and no associated data.
///
/// Through libcrypto and not swift-crypto, because libcrypto wipes the key schedule and writes the plaintext where the
/// caller wants it, into one buffer.
public enum GCM {
    /// The initialisation vector of Apple's payment tokens: 16 zero bytes. Sound only because every token's key is used
    /// once.
    public static let paymentTokenVector = [UInt8](repeating: 0, count: 16)
    /// In bytes.
    public static let tagByteCount = 16

    /// Checks the tag and decrypts.
    /// - Parameters:
    ///   - ciphertextAndTag: at least 16 bytes.
    ///   - key: 16 or 32 bytes; a key of another size does not open anything.
    ///   - initializationVector: 1 to 16 bytes.
    /// - Returns: the plaintext; nothing of it is returned when the tag is wrong.
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
