internal import CLibcrypto
public import SecretMemory

// Unsafe: The C functions receive each buffer with its length, and keep no pointer. Preconditions and guards check the
// lengths that they assume.

/// HKDF with SHA-256 (RFC 5869).
public enum HKDF {
    /// The largest output, in bytes: 255 blocks (RFC 5869 §2.3).
    public static let maximumCount = 255 * blockSize
    private static let blockSize = 32

    /// Extracts and expands a key. Intermediate values stay in secret memory.
    /// - Parameters:
    ///   - salt: Public; empty for 32 zero bytes, which RFC 5869 §2.2 prescribes for an absent salt.
    ///   - information: The context of the derivation, which is public.
    ///   - count: The size of the result in bytes, 1 to ``maximumCount``.
    public static func sha256(
        _ material: borrowing SecretBytes, salt: [UInt8] = [], information: [UInt8], count: Int
    ) throws(RestorationFailure) -> SecretBytes {
        precondition((1...maximumCount).contains(count), "RFC 5869 limits the output to 255 blocks")
        let salt = SecretBytes(copying: salt.isEmpty ? [UInt8](repeating: 0, count: blockSize) : salt)
        let key = try HMACSHA256.tag(of: material, key: salt)
        // T(1) ‖ T(2) ‖ …, where T(n) is the HMAC of T(n - 1) ‖ information ‖ n, and T(0) is empty.
        let blocks = (count + blockSize - 1) / blockSize
        var output = SecretBytes(count: blocks * blockSize)
        var former = SecretBytes(count: 0)
        for block in 1...blocks {
            let input = SecretBytes(joining: former, information + [UInt8(block)])
            former = try HMACSHA256.tag(of: input, key: key)
            unsafe output.withUnsafeMutableBytes { output in
                unsafe former.withUnsafeBytes { former in
                    unsafe output[((block - 1) * blockSize)...].copyBytes(from: former)
                }
            }
        }
        output.shrink(to: count)
        return output
    }
}

/// HMAC with SHA-256 (RFC 2104).
public enum HMACSHA256 {
    /// The size of a tag in bytes.
    public static let tagByteCount = 32

    /// Returns the tag, ``tagByteCount`` bytes.
    public static func tag(
        of message: borrowing SecretBytes, key: borrowing SecretBytes
    ) throws(RestorationFailure) -> SecretBytes {
        try unsafe message.withUnsafeBytes { (message) throws(RestorationFailure) in
            let start = unsafe message.baseAddress?.assumingMemoryBound(to: UInt8.self)
            return try unsafe tag(key) { unsafe clibcrypto_hmac_sha256($0, $1, start, message.count, $2) }
        }
    }

    /// Compares the message's tag in constant time, so that the time does not reveal a correct beginning of a tag.
    public static func isValid(
        _ tag: [UInt8], of message: [UInt8], key: borrowing SecretBytes
    ) throws(RestorationFailure) -> Bool {
        guard tag.count == tagByteCount else { return false }
        let computed = try unsafe Self.tag(key) { unsafe clibcrypto_hmac_sha256($0, $1, message, message.count, $2) }
        return unsafe computed.withUnsafeBytes { computed in
            unsafe clibcrypto_equal(
                computed.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: UInt8.self), tag, tagByteCount) == 1
        }
    }

    /// Compares two tags in constant time, for a tag that the HSM token made.
    /// - Returns: false unless both have ``tagByteCount`` bytes and are equal.
    public static func areEqual(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        guard one.count == tagByteCount, other.count == tagByteCount else { return false }
        return unsafe clibcrypto_equal(one, other, tagByteCount) == 1
    }

    /// - Parameter compute: gets the key, its size and the space for the tag; returns 1 on success.
    private static func tag(
        _ key: borrowing SecretBytes, _ compute: (UnsafePointer<UInt8>?, Int, UnsafeMutablePointer<UInt8>?) -> Int32
    ) throws(RestorationFailure) -> SecretBytes {
        var tag = SecretBytes(count: tagByteCount)
        let done = unsafe tag.withUnsafeMutableBytes { tag in
            unsafe key.withUnsafeBytes { key in
                unsafe compute(
                    key.baseAddress?.assumingMemoryBound(to: UInt8.self), key.count,
                    tag.baseAddress?.assumingMemoryBound(to: UInt8.self))
            }
        }
        // The HMAC fails only if memory cannot be allocated.
        guard done == 1 else { throw RestorationFailure() }
        return tag
    }
}

/// The encryption of Google Pay's messages with the protocol version ECv2: an ECIES of ECDH on P-256, HKDF with
/// SHA-256, AES-256-CTR, and HMAC-SHA256 over the ciphertext (Google, "Payment data cryptography for merchants").
public enum GooglePayMessage {
    /// The information of the HKDF. Its salt is empty.
    public static let information = Array("Google".utf8)
    /// The size of the HKDF's output in bytes: the AES-256 key, then the HMAC key.
    public static let keysByteCount = 64
    /// The first counter block: 16 zero bytes. It is safe only because each message has a key of its own.
    public static let counterBlock = [UInt8](repeating: 0, count: 16)

    /// Splits an encrypted message.
    /// - Parameter ciphertextAndTag: The ciphertext, followed by its tag.
    /// - Returns: nil if the ciphertext is empty.
    public static func split(_ ciphertextAndTag: [UInt8]) -> (ciphertext: [UInt8], tag: [UInt8])? {
        let count = ciphertextAndTag.count - HMACSHA256.tagByteCount
        guard count > 0 else { return nil }
        return (Array(ciphertextAndTag.prefix(count)), Array(ciphertextAndTag.suffix(HMACSHA256.tagByteCount)))
    }

    /// Checks the tag, and only then decrypts.
    /// - Parameters:
    ///   - ciphertextAndTag: The ciphertext, at least one byte, followed by its tag.
    ///   - z: The shared secret with all its leading zeros, 32 bytes.
    ///   - point: The sender's ephemeral public key, which the HKDF takes before the shared secret.
    /// - Returns: The plaintext. Nothing is decrypted if the tag is wrong.
    public static func open(
        _ ciphertextAndTag: [UInt8], z: borrowing SecretBytes, point: P256Point
    ) throws(RestorationFailure) -> [UInt8] {
        guard let (ciphertext, tag) = split(ciphertextAndTag) else { throw RestorationFailure() }
        let keys = try HKDF.sha256(
            SecretBytes(joining: SecretBytes(copying: point.bytes), z), information: information, count: keysByteCount)
        let half = keysByteCount / 2
        let authentication = SecretBytes(copying: keys, from: half)
        guard try HMACSHA256.isValid(tag, of: ciphertext, key: authentication) else { throw RestorationFailure() }
        var plaintext = [UInt8](repeating: 0, count: ciphertext.count)
        let done = unsafe keys.withUnsafeBytes { keys in
            unsafe clibcrypto_aes_256_ctr(
                keys.baseAddress?.assumingMemoryBound(to: UInt8.self), counterBlock, ciphertext, ciphertext.count,
                &plaintext)
        }
        guard done == 1 else { throw RestorationFailure() }
        return plaintext
    }
}

extension SecretBytes {
    /// Copies `first` and then `second`.
    fileprivate init(joining first: borrowing SecretBytes, _ second: borrowing SecretBytes) {
        self.init(count: first.count + second.count)
        let start = first.count
        unsafe withUnsafeMutableBytes { target in
            unsafe first.withUnsafeBytes { unsafe target.copyBytes(from: $0) }
            unsafe second.withUnsafeBytes { unsafe target[start...].copyBytes(from: $0) }
        }
    }

    fileprivate init(joining first: borrowing SecretBytes, _ second: [UInt8]) {
        self.init(joining: first, SecretBytes(copying: second))
    }

    /// Copies `secret` without its first `start` bytes.
    fileprivate init(copying secret: borrowing SecretBytes, from start: Int) {
        self.init(count: secret.count - start)
        unsafe withUnsafeMutableBytes { target in
            unsafe secret.withUnsafeBytes { unsafe target.copyBytes(from: $0[start...]) }
        }
    }
}
