import Encodings
import Foundation
import SwiftASN1
import TestSupport
import Testing

@testable import PaymentToken

/// Published signatures through the function that verifies a payment token's signature.
@Suite("Published vectors for the signature check")
struct SignatureVectorTests {
    @Test("Verifies Wycheproof's ECDSA P-256 with SHA-256: 471 signatures in DER")
    func ecdsa() throws {
        let counts = try run("ecdsa_secp256r1_sha256_test.json", version: .ecV1)
        #expect(counts == Counts(accepted: 170, refused: 301))
    }

    @Test(
        "Verifies Wycheproof's RSA PKCS#1 v1.5 with SHA-256, and refuses a DigestInfo without NULL",
        arguments: [
            ("rsa_signature_2048_sha256_test.json", Counts(accepted: 9, refused: 231)),
            ("rsa_signature_3072_sha256_test.json", Counts(accepted: 8, refused: 231)),
        ])
    func rsa(file: String, expected: Counts) throws {
        #expect(try run(file, version: .rsaV1) == expected)
    }

    struct Counts: Equatable, Sendable {
        var accepted = 0
        var refused = 0
    }

    private func run(_ file: String, version: PaymentTokenVersion) throws -> Counts {
        var counts = Counts()
        for group in try PublishedVectors.signatures(file) {
            let key = try SignerKey(subjectPublicKeyInfo: group.subjectPublicKeyInfo[...], version: version)
            for test in group.tests {
                let accepted = key.isValid(signature: test.signature[...], over: test.message)
                // The acceptable cases are a missing NULL in the DigestInfo, which RFC 8017 §9.2 lets a verifier refuse, and
                // keys with the exponent 3.
                if test.result != "acceptable" {
                    #expect(accepted == (test.result == "valid"), "\(file), case \(test.tcId)")
                }
                if accepted { counts.accepted += 1 } else { counts.refused += 1 }
            }
        }
        return counts
    }

    @Test("Verifies NIST's ECDSA P-256 with SHA-256, and refuses what NIST changed")
    func nistECDSA() throws {
        var counts = Counts()
        for test in try PublishedVectors.cavp("SigVer-P256-SHA256.rsp") {
            let info = try SubjectPublicKeyInfo(.ec(point: [0x04] + test.bytes("Qx") + test.bytes("Qy"))).der
            // A changed public key may be off the curve. It is then refused before the signature is verified.
            let key = try? SignerKey(subjectPublicKeyInfo: info[...], version: .ecV1)
            var signature = DER.Serializer()
            try signature.appendConstructedNode(identifier: .sequence) { numbers in
                for name in ["R", "S"] {
                    try numbers.serialize(([0] + test.bytes(name))[...].minimal)
                }
            }
            let accepted = key?.isValid(signature: signature.serializedBytes[...], over: test.bytes("Msg")) == true
            #expect(accepted == test["Result"].hasPrefix("P"), "\(test["Result"]): \(test["R"])")
            if accepted { counts.accepted += 1 } else { counts.refused += 1 }
        }
        #expect(counts == Counts(accepted: 3, refused: 12))
    }

    @Test("Verifies NIST's RSA-2048 PKCS#1 v1.5 with SHA-256 and the exponents 3, 17 and 65537")
    func nistRSA() throws {
        var counts = Counts()
        for test in try PublishedVectors.cavp("SigVer15-2048-SHA256.rsp") {
            let exponent = Array(test.bytes("e").drop { $0 == 0 })
            let info = try SubjectPublicKeyInfo(.rsa(modulus: test.bytes("n"), publicExponent: exponent)).der
            let key = try SignerKey(subjectPublicKeyInfo: info[...], version: .rsaV1)
            let accepted = key.isValid(signature: test.bytes("S")[...], over: test.bytes("Msg"))
            #expect(accepted == test["Result"].hasPrefix("P"), "\(test["Result"]): \(test["S"].prefix(16))")
            if accepted { counts.accepted += 1 } else { counts.refused += 1 }
        }
        #expect(counts == Counts(accepted: 3, refused: 15))
    }
}

extension ArraySlice<UInt8> {
    /// An INTEGER's content without superfluous zeros: a number that is not negative.
    fileprivate var minimal: ArraySlice<UInt8> {
        var rest = self
        while rest.count > 1, rest.first == 0, rest.dropFirst().first.map({ $0 < 0x80 }) == true {
            rest = rest.dropFirst()
        }
        return rest
    }
}
