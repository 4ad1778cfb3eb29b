import Encodings
import Foundation
import PKCS11
import SecretMemory
import TLSHandshake
import TestSupport
import Testing

@testable import HSMWorker

/// Published RSA signatures through the worker's methods, and through the check that each signature passes before it leaves
/// the worker.
@Suite("RSA signature vectors")
struct RSAVectorTests {
    @Test("makes exactly NIST's PKCS #1 signatures through the HSM token, from the message and from a DigestInfo")
    func nist() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        var made = 0
        // The other cases have signatures that NIST changed.
        for test in try PublishedVectors.cavp("SigVer15-2048-SHA256.rsp") where test["Result"] == "P" {
            var secrets = SecretAttributes(capacity: 2048)
            for (type, name) in [(AttributeType.privateExponent, "d"), (.prime1, "p"), (.prime2, "q")] {
                secrets.append(type, SecretBytes(copying: Array(test.bytes(name).drop { $0 == 0 })))
            }
            let key = try session.createObject(
                [
                    .objectClass(.privateKey), .keyType(.rsa), .token(false), .private(true), .sensitive(true),
                    .extractable(false), .sign(true), .modulus(test.bytes("n")),
                    .publicExponent(Array(test.bytes("e").drop { $0 == 0 })),
                ], secrets: secrets)
            for method in [RSASignatureMethod.pkcs1Hashing, .pkcs1] {
                let (mechanism, data) = method.mechanism(for: test.bytes("Msg"))
                #expect(try session.sign(data, mechanism, key: key) == test.bytes("S"), "\(method)")
                made += 1
            }
            try session.destroyObject(key)
        }
        #expect(made == 6)
    }

    @Test(
        "lets only valid signatures leave the worker",
        arguments: [
            ("rsa_signature_2048_sha256_test.json", .pkcs1SHA256, 9, 231),
            ("rsa_pss_2048_sha256_mgf1_32_test.json", .pssSHA256, 63, 40),
            ("rsa_pss_2048_sha256_mgf1_0_test.json", .pssSHA256, 1, 99),
        ] as [(String, TLSSignatureAlgorithm, Int, Int)])
    func wycheproof(file: String, algorithm: TLSSignatureAlgorithm, expected: Int, otherwise: Int) throws {
        var (accepted, refused) = (0, 0)
        for group in try PublishedVectors.signatures(file) {
            let key = try SubjectPublicKeyInfo(der: group.subjectPublicKeyInfo)
            for test in group.tests {
                let isValid = key.isValid(test.signature, of: test.message, algorithm)
                // Acceptable cases are a DigestInfo without NULL, and keys with the exponent 3.
                if test.result != "acceptable" {
                    // The salt of one case that is invalid for a salt of 0 bytes has 32 bytes.
                    let hasSalt = (group.sLen ?? 32) == 32
                    let isExpected = hasSalt ? test.result == "valid" : test.tcId == 68
                    #expect(isValid == isExpected, "\(file), case \(test.tcId)")
                }
                if isValid { accepted += 1 } else { refused += 1 }
            }
        }
        #expect(accepted == expected)
        #expect(refused == otherwise)
    }
}
