import Crypto
import KeyRestoration
import SecretMemory
import TestSupport
import Testing

@Suite("The one-step KDF")
struct OneStepKDFTests {
    private func derive(_ z: [UInt8], _ otherInfo: [UInt8]) throws -> [UInt8] {
        let key = try OneStepKDF.sha256(z: SecretBytes(copying: z), otherInfo: otherInfo)
        return unsafe key.withUnsafeBytes { unsafe Array($0) }
    }

    /// Published test vectors. Each derives 16 bytes, the first half of a single round.
    private static let published: [(source: String, z: String, otherInfo: String, key: String)] = [
        (
            "RFC 7518 appendix C", "9e56d91d817135d372834283bf84269cfb316ea3da806a48f6daa7798cfe90c4",
            "000000074131323847434d00000005416c69636500000003426f6200000080", "56aa8deaf8236d205c2228cd71a7101a"
        ),
        (
            "OpenSSL evpkdf_ss.txt", "afc4e154498d4770aa8365f6903dc83b", "662af20379b29d5ef813e655",
            "f0b80d6ae4c1e19e2105a37024e35dc6"
        ),
        (
            "singlestep-kdf, SP 800-56C", "a3ce8d61d699ad150e196a7ab6736a63", "ce5cd95a44ee83a8fb83f34c",
            "5db3455a22b65edfcfde3da3e8d724cd"
        ),
        (
            "singlestep-kdf, SP 800-56C", "a9723e56045f0847fdd9c1c78781c8b7", "e69b6005b78f7d42d0a8ed2a",
            "ac3878b8cf357976f7fd8266923e1882"
        ),
        (
            "singlestep-kdf, SP 800-56C", "a07a5e8df7ee1b2ce2a3d1348edfa8ab", "e22a8ee34296dd39b56b31fb",
            "70927d218b6d119268381e9930a4f256"
        ),
    ]

    @Test("derives the published keys in one round")
    func publishedAnswers() throws {
        #expect(Self.published.count == 5)
        for vector in Self.published {
            let z = try #require([UInt8](hexadecimal: vector.z))
            let otherInfo = try #require([UInt8](hexadecimal: vector.otherInfo))
            let key = try derive(z, otherInfo)
            #expect(key.count == 32)
            #expect(Array(key.prefix(16)) == [UInt8](hexadecimal: vector.key), "\(vector.source)")
        }
    }

    @Test("hashes the counter before the secret, unlike X9.63's KDF")
    func counterFirst() throws {
        let z = [UInt8](repeating: 0x5A, count: 32)
        #expect(try derive(z, [1, 2]) == Array(SHA256.hash(data: [0, 0, 0, 1] + z + [1, 2])))
        #expect(try derive(z, [1, 2]) != Array(SHA256.hash(data: z + [0, 0, 0, 1] + [1, 2])))
    }

    @Test("hashes the shared secret with its leading zeros")
    func leadingZeros() throws {
        let short = [UInt8](repeating: 7, count: 31)
        #expect(try derive([0] + short, []) == Array(SHA256.hash(data: [0, 0, 0, 1, 0] + short)))
        #expect(try derive([0] + short, []) != derive(short, []))
    }
}
