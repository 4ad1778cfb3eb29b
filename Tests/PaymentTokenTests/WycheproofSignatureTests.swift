import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import PaymentToken

@Suite("Wycheproof through the check of token signatures")
struct WycheproofSignatureTests {
    struct Group: Sendable {
        let key: [UInt8]
        let cases: [(number: Int, message: [UInt8], signature: [UInt8], result: String)]
    }

    @Test("ECDSA P-256 with SHA-256: 471 signatures in DER")
    func ecdsa() throws {
        let count = try run("ecdsa_secp256r1_sha256_test.json", version: .ecV1)
        #expect(count == 471)
    }

    @Test("RSA-2048 PKCS#1 v1.5 with SHA-256")
    func rsa() throws {
        let count = try run("rsa_signature_2048_sha256_test.json", version: .rsaV1)
        #expect(count > 200)
    }

    private func run(_ file: String, version: TokenVersion) throws -> Int {
        var count = 0
        for group in try Self.groups(file) {
            let key = try SignerKey(subjectPublicKeyInfo: group.key[...], version: version)
            for vector in group.cases {
                let accepted = key.isValid(signature: vector.signature[...], over: vector.message)
                // Acceptable: a missing NULL in the DigestInfo, which PKCS#1 verifiers may take or not.
                if vector.result != "acceptable" {
                    #expect(accepted == (vector.result == "valid"), "tcId \(vector.number)")
                }
                count += 1
            }
        }
        return count
    }

    private static func groups(_ file: String) throws -> [Group] {
        let document = try JSONValue(parsing: Array(PublishedVectors.wycheproof(file)))
        let groups = try #require(document.objectValue?["testGroups"]?.arrayValue)
        return try groups.map { value in
            let group = try #require(value.objectValue)
            let key = try #require((group["publicKeyDer"] ?? group["keyDer"])?.stringValue.flatMap(Hexadecimal.decode))
            let cases = try #require(group["tests"]?.arrayValue).map { value in
                let test = try #require(value.objectValue)
                return (
                    number: try #require(test["tcId"]?.numberValue?.int),
                    message: try #require(test["msg"]?.stringValue.flatMap(Hexadecimal.decode)),
                    signature: try #require(test["sig"]?.stringValue.flatMap(Hexadecimal.decode)),
                    result: try #require(test["result"]?.stringValue)
                )
            }
            return Group(key: key, cases: cases)
        }
    }
}
