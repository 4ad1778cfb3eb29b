import KeyRestoration
import PKCS11
import SecretMemory
import TestSupport
import Testing

/// NIST's validity cases of SP 800-56A with the concatenation KDF, as tier C does both: the HSM token derives the secret,
/// and the worker's code derives the key. A payment's key agreement has no key confirmation.
@Suite("SP 800-56A vectors through the HSM token")
struct KeyAgreementVectorTests {
    @Test("derives the expected key, refuses points off the curve, and derives another key from other input")
    func validity() throws {
        var session = try SoftHSM.shared().freshToken().openSession()
        var (agreed, refused, different) = (0, 0, 0)
        for test in try PublishedVectors.cavp("KDFConcat-P256-SHA256.fax") {
            let reason = try #require(test["Result"].split(separator: " ").dropFirst().first?.dropFirst())
            let point = [0x04] + test.bytes("QsCAVSx") + test.bytes("QsCAVSy")
            guard let z = try session.sharedSecret(point, test.bytes("dsIUT")) else {
                // 1 and 2: the other party's public key is not on the curve.
                #expect(["1", "2"].contains(reason), "case \(test["COUNT"]): \(test["Result"])")
                refused += 1
                continue
            }
            let key = try OneStepKDF.sha256(z: SecretBytes(copying: z), otherInfo: test.bytes("OI"))
            let half = unsafe key.withUnsafeBytes { unsafe Array($0.prefix(16)) }
            // 0, 13 and 14 are correct. 11 and 12 change the key confirmation, which follows the derivation.
            let isExpected = ["0", "11", "12", "13", "14"].contains(reason)
            #expect((half == test.bytes("DKM")) == isExpected, "case \(test["COUNT"]): \(test["Result"])")
            if isExpected {
                #expect(z == test.bytes("Z"), "case \(test["COUNT"])")
                agreed += 1
            } else {
                different += 1
            }
        }
        #expect(agreed == 14)
        #expect(refused == 4)
        #expect(different == 12)
    }
}
