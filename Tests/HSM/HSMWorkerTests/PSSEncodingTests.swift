import Crypto
import Foundation
import TestSupport
import Testing

@testable import HSMWorker

/// EMSA-PSS compared with Wycheproof's signatures. The RSA operation with the public key turns each valid signature
/// into the encoded message, from which the test extracts the salt.
@Suite struct PSSEncodingTests {
    private struct File: Decodable {
        struct Group: Decodable {
            let keysize, sLen: Int
            let keyPem: String
            let tests: [Case]
        }
        struct Case: Decodable {
            let tcId: Int
            let msg, sig, result: String
        }
        let testGroups: [Group]
    }

    /// Returns the first `count` bytes of MGF1 with SHA-256 (RFC 8017 §B.2.1), at most 255 hashes.
    private func mask(_ seed: [UInt8], _ count: Int) -> [UInt8] {
        Array((0..<UInt8((count + 31) / 32)).flatMap { SHA256.hash(data: seed + [0, 0, 0, $0]) }.prefix(count))
    }

    /// Returns the encoded message of a signature, to which openssl applies the RSA operation with the public key.
    private func encoding(of signature: [UInt8], _ publicKey: String) async throws -> [UInt8] {
        let result = try await Program.run(
            Program.installed("sh"),
            [
                "-c",
                "openssl pkeyutl -verifyrecover -pubin -inkey \"$0\" -pkeyopt rsa_padding_mode:none | od -An -v -tx1",
                publicKey,
            ], input: signature)
        return try #require([UInt8](hexadecimal: result.output.filter { !$0.isWhitespace }))
    }

    @Test(
        "encodes each message and salt exactly as in the valid signature",
        arguments: [
            "rsa_pss_2048_sha256_mgf1_32_test.json", "rsa_pss_2048_sha256_mgf1_0_test.json",
            "rsa_pss_3072_sha256_mgf1_32_test.json",
        ])
    func vectors(_ file: String) async throws {
        let groups = try JSONDecoder().decode(File.self, from: PublishedVectors.wycheproof(file)).testGroups
        let files = try FreshDirectory()
        var checked = 0
        for group in groups {
            let publicKey = try files.write(group.keyPem, to: "key.pem")
            for test in group.tests.filter({ $0.result == "valid" }).prefix(12) {
                let encoded = try await encoding(of: try #require([UInt8](hexadecimal: test.sig)), publicKey)
                try #require(encoded.count == group.keysize / 8 && encoded.last == 0xBC, "\(test.tcId)")
                let hash = Array(encoded.dropLast().suffix(32))
                let block = encoded.dropLast(33)
                let salt = Array(zip(block, mask(hash, block.count)).map { $0 ^ $1 }.suffix(group.sLen))
                let digest = Array(SHA256.hash(data: try #require([UInt8](hexadecimal: test.msg))))
                #expect(
                    PSSEncoding.encode(digest: digest, salt: salt, modulusBits: group.keysize) == encoded,
                    "\(test.tcId)")
                checked += 1
            }
        }
        #expect(checked == 12)
    }

    @Test("uses a new salt of 32 bytes each time, and leaves the modulus's highest bit free")
    func salts() {
        let digest = Array(SHA256.hash(data: [1, 2, 3]))
        let encodings = (0..<64).map { _ in PSSEncoding.encode(digest: digest, modulusBits: 2048) }
        #expect(Set(encodings).count == 64)
        #expect(encodings.allSatisfy { $0.count == 256 && $0[0] < 0x80 && $0.last == 0xBC })
        #expect(Set((0..<64).map { _ in PSSEncoding.makeSalt() }).count == 64)
        #expect(PSSEncoding.makeSalt().count == 32)
        // A modulus of 2049 bits has 257 bytes, but the encoded message has only 256 (RFC 8017 §8.1.1). The encoding
        // therefore begins with a zero byte.
        #expect(PSSEncoding.encode(digest: digest, modulusBits: 2049).first == 0)
        #expect(PSSEncoding.encode(digest: digest, modulusBits: 2049).count == 257)
    }
}
