import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite struct VerifyTests {
    @Test("returns the leaf, intermediate and root certificates with their fingerprints")
    func chain() async throws {
        let paymentToken = try SharedForge.paymentToken(for: SharedForge.rsaMerchant.merchant)
        let answer = try await SharedDaemon.harness.verify(paymentToken)
        #expect(answer.status == 200, "\(answer)")
        #expect(answer.string("version") == "RSA_v1")
        #expect(answer.string("transactionId") == paymentToken.transactionIdentifier)
        #expect(answer.string("publicKeyHash") == Data(paymentToken.publicKeyHash).base64EncodedString())
        #expect(answer.string("signingTime") == paymentToken.signingTime.formatted(.iso8601))
        let chain = (answer.member("chain")?.arrayValue ?? []).compactMap(\.objectValue)
        let authority = try SharedForge.authority
        #expect(
            chain.map { $0["sha256"]?.stringValue?.lowercased() } == [
                Fingerprint.hex(authority.leafRSA.certificate), Fingerprint.hex(authority.intermediate.certificate),
                Fingerprint.hex(authority.root.certificate),
            ])
        for certificate in chain {
            for name in ["subject", "issuer", "serialNumber", "notBefore", "notAfter"] {
                #expect(certificate[name]?.stringValue?.isEmpty == false, "\(name)")
            }
        }
    }

    @Test("verifies payment tokens for unknown keys without a claim, so that they can still be decrypted")
    func claimsNothing() async throws {
        let harness = try await SharedDaemon.harness
        let outsider = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.outsider"))
        let unknown = try SharedForge.paymentToken(for: outsider.merchant)
        #expect(try await harness.verify(unknown).status == 200)
        #expect(try await harness.decrypt(unknown).code == "unknown_public_key_hash")

        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.verify(paymentToken).status == 200)
        #expect(try await harness.verify(paymentToken).status == 200)
        let answer = try await harness.decrypt(paymentToken)
        #expect(answer.status == 200 && answer.member("repeated")?.boolValue == false, "\(answer)")
    }

    /// The signed data have no separators between members. openapi.json explains what this means for the answer of
    /// verify.
    @Test("verifies a payment token with 32 bytes moved between members, but does not decrypt or claim it")
    func movedBytes() async throws {
        let harness = try await SharedDaemon.harness
        let paymentToken = try SharedForge.mint.mint(
            TokenRecipe(merchant: SharedForge.ecMerchant.merchant, applicationData: [1]))
        let members = try #require(try JSONValue(parsing: paymentToken.paymentData).objectValue)
        let header = try #require(members["header"]?.objectValue)
        let data = try #require(members["data"]?.stringValue)
        let transaction = try #require(header["transactionId"]?.stringValue)
        let hash = try #require(header["applicationData"]?.stringValue)
        let bytes = try #require([UInt8](hexadecimal: transaction))
        let longer = try #require(Data(base64Encoded: data)) + bytes
        let text = String(decoding: paymentToken.paymentData, as: UTF8.self)
            .replacing("\"\(data)\"", with: "\"\(longer.base64EncodedString())\"")
            .replacing(transaction, with: hash)
            .replacing("\"applicationData\"", with: "\"formerApplicationData\"")
        let body = Array("{\"token\":\(text)}".utf8)
        let verified = try await Curl.request("/v1/verify", socket: harness.socket, body: body)
        #expect(verified.status == 200, "\(verified)")
        #expect(verified.string("transactionId") == hash)
        #expect(try await harness.decrypt(body).code == "decryption_failed")
        #expect(try await harness.decrypt(paymentToken).status == 200)
    }

    @Test("checks the signing time against `at` instead of the current time")
    func at() async throws {
        let harness = try await SharedDaemon.harness
        var recipe = TokenRecipe(merchant: try SharedForge.ecMerchant.merchant)
        recipe.signingTime = recipe.signingTime.addingTimeInterval(-30 * 86_400)
        let paymentToken = try SharedForge.mint.mint(recipe)
        #expect(try await harness.verify(paymentToken).code == "signing_time_outside_window")
        let time = recipe.signingTime.addingTimeInterval(60).formatted(.iso8601)
        #expect(try await harness.verify(paymentToken, at: time).status == 200)
        let malformed = try await harness.verify(paymentToken, at: "yesterday")
        #expect(malformed.status == 400 && malformed.code == "malformed_request", "\(malformed)")
    }
}
