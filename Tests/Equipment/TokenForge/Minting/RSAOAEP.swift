import Crypto
import CryptoExtras
import Foundation

/// RSAES-OAEP (RFC 8017 §7.1) with any label, digest and mask digest, which no library offers.
struct RSAOAEP {
    enum Digest { case sha1, sha256 }

    var digest: Digest = .sha256
    var maskDigest: Digest = .sha256
    var label: [UInt8] = []
    /// The first octet of the encoded message. A decryptor must refuse any value except 0.
    var firstOctet: UInt8 = 0

    /// Encrypts `message` to the RSA key in `subjectPublicKeyInfo`. The result is as long as the modulus.
    func encrypt(_ message: [UInt8], to subjectPublicKeyInfo: [UInt8]) throws -> [UInt8] {
        let primitives = try _RSA.Encryption.PublicKey(derRepresentation: subjectPublicKeyInfo).getKeyPrimitives()
        let modulus = Array(primitives.modulus.drop { $0 == 0 })
        let hashLength = Self.hash(label, digest).count
        guard message.count <= modulus.count - 2 * hashLength - 2 else {
            throw ForgeFailure.recipe("\(message.count) bytes are too long for this RSA key")
        }
        let padding = [UInt8](repeating: 0, count: modulus.count - message.count - 2 * hashLength - 2)
        let block = Self.hash(label, digest) + padding + [1] + message
        let seed = (0..<hashLength).map { _ in UInt8.random(in: .min ... .max) }
        let maskedBlock = zip(block, mask(seed, block.count)).map { $0 ^ $1 }
        let maskedSeed = zip(seed, mask(maskedBlock, hashLength)).map { $0 ^ $1 }
        return RawRSA.power(
            [firstOctet] + maskedSeed + maskedBlock, modulus: modulus, exponent: primitives.publicExponent)
    }

    /// Returns `count` bytes of the mask that MGF1 generates from `seed` (RFC 8017 §B.2.1).
    private func mask(_ seed: [UInt8], _ count: Int) -> [UInt8] {
        var output: [UInt8] = []
        var counter: UInt32 = 0
        while output.count < count {
            output += Self.hash(seed + withBigEndian(counter), maskDigest)
            counter += 1
        }
        return Array(output.prefix(count))
    }

    private func withBigEndian(_ value: UInt32) -> [UInt8] {
        [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
    }

    private static func hash(_ bytes: [UInt8], _ digest: Digest) -> [UInt8] {
        switch digest {
        case .sha1: Array(Insecure.SHA1.hash(data: bytes))
        case .sha256: Array(SHA256.hash(data: bytes))
        }
    }
}

/// The RSA public-key operation (RFC 8017 §5.1.1) on 32-bit limbs. It is neither fast nor constant in time, because it
/// only encrypts test data.
enum RawRSA {
    /// Returns base^exponent mod modulus, in as many bytes as the modulus. All numbers are big-endian, and `base` must
    /// be less than `modulus`.
    static func power(_ base: [UInt8], modulus: [UInt8], exponent: Data) -> [UInt8] {
        let n = limbs(modulus)
        let b = limbs(base) + [UInt32](repeating: 0, count: max(0, n.count - limbs(base).count))
        var result = b
        let bits = exponent.flatMap { byte in (0..<8).reversed().map { byte >> $0 & 1 } }.drop { $0 == 0 }
        for bit in bits.dropFirst() {
            result = product(result, result, n)
            if bit == 1 { result = product(result, b, n) }
        }
        let bytes = result.reversed().flatMap {
            [UInt8($0 >> 24), UInt8($0 >> 16 & 0xff), UInt8($0 >> 8 & 0xff), UInt8($0 & 0xff)]
        }
        return Array(bytes.suffix(modulus.count))
    }

    /// Converts big-endian bytes to little-endian limbs.
    private static func limbs(_ bytes: [UInt8]) -> [UInt32] {
        let padded = [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4) + bytes
        return stride(from: padded.count - 4, through: 0, by: -4).map { start in
            padded[start..<(start + 4)].reduce(0) { $0 << 8 | UInt32($1) }
        }
    }

    /// Returns one · other mod n by interleaved multiplication. It takes 32 bits of `other` at a time, and reduces
    /// modulo n bit by bit.
    private static func product(_ one: [UInt32], _ other: [UInt32], _ n: [UInt32]) -> [UInt32] {
        var sum = [UInt32](repeating: 0, count: n.count + 1)
        for limb in other.reversed() {
            for bit in (0..<32).reversed() {
                double(&sum)
                if !less(sum, n) { subtract(&sum, n) }
                if limb >> UInt32(bit) & 1 == 1 {
                    add(&sum, one)
                    if !less(sum, n) { subtract(&sum, n) }
                }
            }
        }
        return Array(sum.prefix(n.count))
    }

    private static func double(_ value: inout [UInt32]) {
        var carry: UInt32 = 0
        for index in value.indices {
            let next = value[index] >> 31
            value[index] = value[index] << 1 | carry
            carry = next
        }
    }

    private static func add(_ value: inout [UInt32], _ other: [UInt32]) {
        var carry: UInt64 = 0
        for index in value.indices {
            let sum = UInt64(value[index]) + UInt64(index < other.count ? other[index] : 0) + carry
            value[index] = UInt32(truncatingIfNeeded: sum)
            carry = sum >> 32
        }
    }

    private static func subtract(_ value: inout [UInt32], _ other: [UInt32]) {
        var borrow: Int64 = 0
        for index in value.indices {
            let difference = Int64(value[index]) - Int64(index < other.count ? other[index] : 0) - borrow
            value[index] = UInt32(truncatingIfNeeded: difference)
            borrow = difference < 0 ? 1 : 0
        }
    }

    private static func less(_ value: [UInt32], _ other: [UInt32]) -> Bool {
        for index in value.indices.reversed() {
            let limb = index < other.count ? other[index] : 0
            if value[index] != limb { return value[index] < limb }
        }
        return false
    }
}
