internal import CLibcrypto
public import SecretMemory

/// The decoding of RSA-OAEP (RFC 8017 §7.1.2, step 3) for tokens that do the bare RSA operation only.
public enum OAEP {
    /// Decodes with SHA-256 as hash and in MGF1, and the empty label, in constant time: neither how nor where the
    /// padding is wrong shows in the answer or in the time (Manger's attack).
    /// - Parameters:
    ///   - block: the RSA operation's result with all its leading zeros.
    ///   - modulusByteCount: the size of the key's modulus in bytes; a block of another size is refused.
    /// - Returns: the message, 0 to `modulusByteCount` − 66 bytes.
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
