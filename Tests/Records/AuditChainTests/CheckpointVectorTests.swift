import AuditChain
import Encodings
import Foundation
import KeyTypes
import TestSupport
import Testing

/// Wycheproof's and NIST's signatures through the function that verifies an audit checkpoint's signature. A checkpoint's
/// RSA key has 2,048 bits and the exponent 65537, and its PSS has SHA-256, MGF1-SHA256 and a salt of 32 bytes.
@Suite("Published vectors for the signatures of checkpoints")
struct CheckpointVectorTests {
    struct Counts: Equatable, Sendable {
        var accepted = 0
        var refused = 0
        /// Cases with a key that no checkpoint can have.
        var skipped = 0
    }

    @Test(
        "accepts exactly the valid signatures with a checkpoint's parameters",
        arguments: [
            ("ecdsa_secp256r1_sha256_test.json", .ecdsaP256, Counts(accepted: 170, refused: 301)),
            ("rsa_signature_2048_sha256_test.json", .rsaPKCS1, Counts(accepted: 7, refused: 231, skipped: 2)),
            ("rsa_signature_3072_sha256_test.json", .rsaPKCS1, Counts(skipped: 239)),
            ("rsa_pss_2048_sha256_mgf1_32_test.json", .rsaPSS, Counts(accepted: 63, refused: 40)),
            ("rsa_pss_2048_sha256_mgf1_0_test.json", .rsaPSS, Counts(accepted: 1, refused: 99)),
            ("rsa_pss_3072_sha256_mgf1_32_test.json", .rsaPSS, Counts(skipped: 103)),
            ("rsa_pss_misc_test.json", .rsaPSS, Counts(accepted: 1, refused: 149)),
        ] as [(String, AuditSignatureAlgorithm, Counts)])
    func wycheproof(file: String, algorithm: AuditSignatureAlgorithm, expected: Counts) throws {
        var counts = Counts()
        for group in try PublishedVectors.signatures(file) {
            guard let key = CheckpointKey(subjectPublicKeyInfo: group.subjectPublicKeyInfo) else {
                counts.skipped += group.tests.count
                continue
            }
            let hasParameters =
                group.sha == "SHA-256" && (group.mgfSha ?? "SHA-256") == "SHA-256" && (group.sLen ?? 32) == 32
            for test in group.tests {
                let signature = CheckpointSignature(test.signature, by: algorithm)
                let accepted = signature.map { key.verifies($0, by: algorithm, of: test.message) } == true
                // The salt of one case that is invalid for a salt of 0 bytes has 32 bytes.
                let hasLongSalt = group.sLen == 0 && test.tcId == 68
                // The acceptable case, whose DigestInfo lacks NULL, is refused.
                #expect(
                    accepted == (hasParameters && test.result == "valid" || hasLongSalt), "\(file), case \(test.tcId)")
                if accepted { counts.accepted += 1 } else { counts.refused += 1 }
            }
        }
        #expect(counts == expected)
    }

    @Test("verifies NIST's RSA-2048 PKCS#1 v1.5 signatures with the exponent 65537")
    func nist() throws {
        var counts = Counts()
        for test in try PublishedVectors.cavp("SigVer15-2048-SHA256.rsp") {
            let exponent = Array(test.bytes("e").drop { $0 == 0 })
            let info = try SubjectPublicKeyInfo(.rsa(modulus: test.bytes("n"), publicExponent: exponent)).der
            guard let key = CheckpointKey(subjectPublicKeyInfo: info),
                let signature = CheckpointSignature(test.bytes("S"), by: .rsaPKCS1)
            else {
                counts.skipped += 1
                continue
            }
            let accepted = key.verifies(signature, by: .rsaPKCS1, of: test.bytes("Msg"))
            #expect(accepted == test["Result"].hasPrefix("P"), "\(test["Result"]): \(test["S"].prefix(16))")
            if accepted { counts.accepted += 1 } else { counts.refused += 1 }
        }
        #expect(counts == Counts(accepted: 1, refused: 5, skipped: 12))
    }
}
