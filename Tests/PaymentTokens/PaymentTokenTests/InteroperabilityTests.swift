import Crypto
import Encodings
import Foundation
import PaymentToken
import Refusals
import StrictJSON
import TestSupport
import Testing

@Suite(
    "Real payment tokens",
    .enabled(if: Fixtures.directory != nil, "set PAYTOKEND_INTEROP_FIXTURES to a folder of real tokens"))
struct InteroperabilityTests {
    @Test("Verifies every real payment token's signature up to Apple Root CA - G3 at its signing time")
    func signatures() async throws {
        let policy = TrustPolicy(roots: [try AppleRootCAG3.certificate()], distrusted: [])
        for fixture in try Fixtures.paymentTokens() {
            let paymentToken = try PaymentToken(json: JSONValue(parsing: fixture.json))
            let evidence = try SignatureEvidence(of: paymentToken)
            let chain = try await policy.evaluate(evidence)
            let signingTime = try Date(fixture.signingTime, strategy: .iso8601)
            #expect(paymentToken.version.rawValue == fixture.version, "\(fixture.name)")
            #expect(evidence.signingTime == signingTime, "\(fixture.name)")
            #expect(Hexadecimal.encode(chain.root.sha256) == AppleRootCAG3.fingerprint)
            try SigningTimeWindow.within(.seconds(300)).check(
                signingTime: evidence.signingTime, now: signingTime.addingTimeInterval(299))
            let today = try refusal {
                try SigningTimeWindow.within(.seconds(300)).check(signingTime: evidence.signingTime, now: Date())
            }
            #expect(today?.code == .signingTimeOutsideWindow, "\(fixture.name)")
        }
    }

    @Test("Refuses a real payment token after a change to its signed content")
    func changedTokens() throws {
        for fixture in try Fixtures.paymentTokens() {
            let json = try JSONValue(parsing: fixture.json)
            let path: [String] = json.objectValue?["paymentData"] == nil ? [] : ["paymentData"]
            let added = JSONValue.string(String(repeating: "0", count: 64))
            let changed =
                path.isEmpty
                ? json.setting("header", "applicationData", to: added)
                : json.setting("paymentData", "header", "applicationData", to: added)
            let refusal = try refusal { _ = try SignatureEvidence(of: PaymentToken(json: changed)) }
            #expect(refusal?.code == .signatureInvalid, "\(fixture.name)")
        }
    }

    @Test("Decrypts the real EC_v1 payment tokens with this project's OtherInfo, and reads their payloads")
    func payloads() throws {
        for fixture in try Fixtures.paymentTokens() where fixture.version == "EC_v1" {
            guard let file = fixture.privateKey, let merchant = fixture.merchantIdentifier else { continue }
            let paymentToken = try PaymentToken(json: JSONValue(parsing: fixture.json))
            let key = try P256.KeyAgreement.PrivateKey(derRepresentation: Data(contentsOf: file))
            #expect(
                PublicKeyHash.of(subjectPublicKeyInfo: key.publicKey.derRepresentation) == paymentToken.publicKeyHash)

            let point = try P256.KeyAgreement.PublicKey(x963Representation: paymentToken.restorationInput())
            let secret = try unsafe key.sharedSecretFromKeyAgreement(with: point).withUnsafeBytes { bytes in
                unsafe Array(bytes)
            }
            let symmetricKey = SHA256.hash(data: [0, 0, 0, 1] + secret + OtherInfo.ecV1(merchantIdentifier: merchant))
            let box = try AES.GCM.SealedBox(
                nonce: AES.GCM.Nonce(data: [UInt8](repeating: 0, count: 16)),
                ciphertext: paymentToken.encryptedData.dropLast(16), tag: paymentToken.encryptedData.suffix(16))
            let plaintext = Array(try AES.GCM.open(box, using: SymmetricKey(data: Data(symmetricKey))))
            #expect(Hexadecimal.encode(Array(SHA256.hash(data: plaintext))) == fixture.plaintextSHA256)

            // The members must exist. Their values are private, so no expected value is written here.
            let json = try #require(try JSONValue(parsing: plaintext).objectValue)
            #expect(json["applicationPrimaryAccountNumber"]?.stringValue != nil)
            #expect(json["paymentDataType"]?.stringValue == "3DSecure")
            #expect(json["paymentData"]?.objectValue != nil)
            let payload = try PaymentPayload(plaintext: plaintext)
            #expect(payload.currencyCode?.count == 3)
            #expect(payload.transactionAmount != nil)
        }
    }
}
