import Crypto

/// EMSA-PSS-ENCODE (RFC 8017 §9.1.1) with SHA-256, MGF1-SHA256 and a salt as long as the hash. This is the padding of
/// rsa_pss_rsae_sha256 (RFC 8446 §4.2.3), for HSM tokens that only do the bare RSA operation. It handles no secret.
enum PSSEncoding {
    /// The size of the salt and of the hash.
    static let saltByteCount = SHA256.byteCount

    /// A salt from the system's generator.
    static func makeSalt() -> [UInt8] {
        var generator = SystemRandomNumberGenerator()
        return (0..<saltByteCount).map { _ in .random(in: .min ... .max, using: &generator) }
    }

    /// - Parameters:
    ///   - digest: The message's SHA-256.
    ///   - salt: The salt, of any length for which the precondition is met.
    ///   - modulusBits: The length of the key's modulus in bits. The encoding is one bit shorter.
    /// - Returns: The input of the bare RSA operation: a big-endian number with as many bytes as the modulus.
    /// - Precondition: The modulus has room for the hash, the salt and two more bytes. RSA-2048 has room for a salt of
    ///   32 bytes.
    static func encode(digest: [UInt8], salt: [UInt8] = makeSalt(), modulusBits: Int) -> [UInt8] {
        let encodedBits = modulusBits - 1
        let count = (encodedBits + 7) / 8
        precondition(count >= SHA256.byteCount + salt.count + 2, "a modulus too small for PSS")
        // Steps 5 and 6 of RFC 8017 §9.1.1: M' is eight zero bytes, the message's hash and the salt.
        let hash = Array(SHA256.hash(data: [UInt8](repeating: 0, count: 8) + digest + salt))
        // Steps 7 and 8: the padding string PS, the byte 0x01 and the salt.
        let padding = [UInt8](repeating: 0, count: count - salt.count - SHA256.byteCount - 2)
        var block = padding + [0x01] + salt
        // Steps 9 to 11: the block is masked, and the bits that exceed the encoding's length are cleared.
        for (index, octet) in mask(from: hash, count: block.count).enumerated() { block[index] ^= octet }
        block[0] &= 0xFF >> UInt8(8 * count - encodedBits)
        let encoded = block + hash + [0xBC]
        // If the modulus has one bit more than a multiple of eight, the encoding is a byte shorter than the modulus
        // (RFC 8017 §8.1.1).
        return [UInt8](repeating: 0, count: (modulusBits + 7) / 8 - count) + encoded
    }

    /// MGF1 with SHA-256 (RFC 8017 §B.2.1).
    private static func mask(from seed: [UInt8], count: Int) -> [UInt8] {
        var mask: [UInt8] = []
        var counter: UInt32 = 0
        while mask.count < count {
            let octets = stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: counter >> UInt32($0)) }
            mask += SHA256.hash(data: seed + octets)
            counter += 1
        }
        return Array(mask.prefix(count))
    }
}
