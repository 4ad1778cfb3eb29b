import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite struct VerifyTests {
    @Test("verify answers with the chain: leaf, intermediate, root, each with its fingerprint")
    func chain() async throws {
        let token = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.rsaMerchant.merchant))
        let answer = try await SharedDaemon.harness.verify(token)
        #expect(answer.status == 200, "\(answer)")
        #expect(answer.string("version") == "RSA_v1")
        #expect(answer.string("transactionId") == token.transactionIdentifier)
        #expect(answer.string("publicKeyHash") == Data(token.publicKeyHash).base64EncodedString())
        #expect(answer.string("signingTime") == token.signingTime.formatted(.iso8601))
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

    @Test("verify uses no key and claims nothing: unknown keys verify, and decrypting comes after")
    func claimsNothing() async throws {
        let harness = try await SharedDaemon.harness
        let stranger = try ForgedMerchant(
            authority: SharedForge.authority, type: .p256,
            profile: MerchantCertificateProfile(merchantIdentifier: "merchant.com.example.stranger"))
        let unknown = try SharedForge.mint.mint(TokenRecipe(merchant: stranger.merchant))
        #expect(try await harness.verify(unknown).status == 200)
        #expect(try await harness.decrypt(unknown).code == "unknown_public_key_hash")

        let token = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.ecMerchant.merchant))
        #expect(try await harness.verify(token).status == 200)
        #expect(try await harness.verify(token).status == 200)
        let answer = try await harness.decrypt(token)
        #expect(answer.status == 200 && answer.member("repeated")?.boolValue == false, "\(answer)")
    }

    @Test("`at` replaces the present in the window")
    func at() async throws {
        let harness = try await SharedDaemon.harness
        var recipe = TokenRecipe(merchant: try SharedForge.ecMerchant.merchant)
        recipe.signingTime = recipe.signingTime.addingTimeInterval(-30 * 86_400)
        let token = try SharedForge.mint.mint(recipe)
        #expect(try await harness.verify(token).code == "signing_time_outside_window")
        let time = recipe.signingTime.addingTimeInterval(60).formatted(.iso8601)
        #expect(try await harness.verify(token, at: time).status == 200)
        let malformed = try await harness.verify(token, at: "yesterday")
        #expect(malformed.status == 400 && malformed.code == "malformed_request", "\(malformed)")
    }
}
