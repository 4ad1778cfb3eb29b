import Encodings
import SecretMemory
import TestSupport
import Testing

@testable import HSMWorker

@Suite struct PrivateKeyInfoTests {
    private func refuses(_ bytes: [UInt8]) -> Bool {
        do {
            _ = try PrivateKeyInfo(pkcs8: SecretBytes(copying: bytes))
            return false
        } catch {
            return true
        }
    }

    @Test("refuses a key file that is truncated at any byte")
    func truncations() throws {
        for pkcs8 in [try SharedForge.ecMerchant.key.pkcs8, try SharedForge.rsaMerchant.key.pkcs8] {
            #expect(!refuses(pkcs8))
            for count in pkcs8.indices { #expect(refuses(Array(pkcs8[..<count]))) }
            #expect(refuses(pkcs8 + [0]))
        }
    }

    @Test("refuses a change of any bit before the private number, except the bit that distinguishes the two versions")
    func bitFlips() throws {
        let pkcs8 = try SharedForge.ecMerchant.key.pkcs8
        // The headers and the algorithm have 36 octets. The lowest bit of the sixth octet distinguishes the versions.
        for bit in 0..<36 * 8 {
            var changed = pkcs8
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(refuses(changed) == (bit != 5 * 8), "bit \(bit)")
        }
    }

    @Test("refuses Ed25519 and P-384 keys")
    func otherAlgorithms() {
        // The key file has the structure of the example in RFC 8410 §10.3.
        let ed25519: [UInt8] =
            [0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20]
            + Array(repeating: 7, count: 32)
        #expect(refuses(ed25519))
        let p384: [UInt8] =
            [
                0x30, 0x4E, 0x02, 0x01, 0x00, 0x30, 0x10, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06,
                0x05,
            ]
            + [0x2B, 0x81, 0x04, 0x00, 0x22, 0x04, 0x37, 0x30, 0x35, 0x02, 0x01, 0x01, 0x04, 0x30]
            + Array(repeating: 7, count: 48)
        #expect(refuses(p384))
    }

    @Test("accepts a certificate's public key in its canonical encoding only")
    func subjectPublicKeyInfo() throws {
        for merchant in [try SharedForge.ecMerchant, try SharedForge.rsaMerchant] {
            let parsed = try CertificateAttributes(der: merchant.certificate)
            #expect(parsed.publicKey.der == merchant.key.subjectPublicKeyInfo)
            #expect(parsed.publicKey.publicKeyHash == merchant.merchant.publicKeyHash)
            #expect(try SubjectPublicKeyInfo(parsed.publicKey.key).der == merchant.key.subjectPublicKeyInfo)
            for count in merchant.certificate.indices {
                #expect(throws: UnsuitableKey.self) {
                    try CertificateAttributes(der: Array(merchant.certificate[..<count]))
                }
            }
        }
    }
}
