import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Decryption through the daemon's socket. Each test mints a payment token, sends it with curl, and compares the
/// answer.
@Suite(.everyEngine) struct DecryptTests {
    static let merchants = ["EC_v1", "RSA_v1"]

    private func merchant(_ version: String) throws -> ForgedMerchant {
        try version == "EC_v1" ? SharedForge.ecMerchant : SharedForge.rsaMerchant
    }

    /// Requires that the answer contains the decrypted dictionary byte for byte.
    private func expectVerbatim(_ answer: CurlAnswer, _ paymentToken: MintedToken) {
        #expect(answer.status == 200, "\(answer)")
        let member = Array("\"paymentData\":".utf8) + paymentToken.plaintext
        #expect(answer.body.holds(member), "paymentData is not verbatim")
    }

    @Test(
        "decrypts a valid payment token, and names the merchant and the protection tier",
        arguments: merchants)
    func freshToken(version: String) async throws {
        let merchant = try merchant(version).merchant
        let paymentToken = try SharedForge.paymentToken(for: merchant)
        let answer = try await SharedDaemon.harness.decrypt(paymentToken)
        expectVerbatim(answer, paymentToken)
        #expect(answer.header("Content-Type")?.hasPrefix("application/json") == true)
        #expect(answer.string("transactionId") == paymentToken.transactionIdentifier)
        #expect(answer.string("merchantIdentifier") == merchant.identifier)
        #expect(answer.string("publicKeyHash") == Data(paymentToken.publicKeyHash).base64EncodedString())
        #expect(answer.string("version") == version)
        #expect(answer.string("signingTime") == paymentToken.signingTime.formatted(.iso8601))
        // SoftHSM has tier C, because it cannot derive or unwrap a key that stays inside.
        #expect(answer.string("protection") == "C")
        #expect(answer.member("repeated")?.boolValue == false)
        #expect(answer.member("checked")?.arrayValue?.isEmpty == true)
    }

    @Test(
        "decrypts payment tokens in every form that Apple has used", arguments: merchants,
        [WireForm.since2014, .since2019, .since2023, .distinguished])
    func wireForms(version: String, wire: WireForm) async throws {
        var wire = wire
        for round in 0..<2 {
            // The second round uses all permitted alternatives: the issuer's certificate first, base64 without
            // padding, and hexadecimal digits in upper case.
            if round == 1 { (wire.issuerFirst, wire.unpaddedBase64, wire.upperCaseHex) = (true, true, true) }
            let paymentToken = try SharedForge.mint.mint(
                TokenRecipe(merchant: merchant(version).merchant, applicationData: Array("order".utf8), wire: wire))
            expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken), paymentToken)
        }
    }

    @Test("accepts paymentData without its envelope as a payment token", arguments: merchants)
    func paymentDataAlone(version: String) async throws {
        let paymentToken = try SharedForge.paymentToken(for: merchant(version).merchant)
        expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken.decryptBody(whole: false)), paymentToken)
    }

    @Test("ignores unknown members inside the payment token", arguments: merchants)
    func unknownMembers(version: String) async throws {
        let paymentToken = try SharedForge.mint.mint(
            TokenRecipe(merchant: merchant(version).merchant, deviations: [.unknownMembers]))
        expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken), paymentToken)
    }

    @Test("treats RSA_v2 as another name for RSA_v1")
    func rsaV2() async throws {
        var recipe = TokenRecipe(merchant: try SharedForge.rsaMerchant.merchant)
        recipe.version = "RSA_v2"
        let paymentToken = try SharedForge.mint.mint(recipe)
        expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken), paymentToken)
    }

    @Test("decrypts a payment token whose shared secret begins with a zero byte")
    func leadingZero() async throws {
        var recipe = TokenRecipe(merchant: try SharedForge.ecMerchant.merchant)
        recipe.leadingZeroSharedSecret = true
        let paymentToken = try SharedForge.mint.mint(recipe)
        expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken), paymentToken)
    }

    @Test("returns every kind of payload byte for byte: EMV, without ECI, merchant tokens, responses, unknown members")
    func payloads() async throws {
        var emv = PayloadRecipe(.emv)
        emv.encryptedPINData = "0123456789ABCDEF"
        var withoutECI = PayloadRecipe()
        withoutECI.eciIndicator = nil
        var merchantToken = PayloadRecipe()
        merchantToken.merchantTokenIdentifier = "DNITHE0000000001"
        var responses = PayloadRecipe()
        responses.authenticationResponses = [("sub.one", "Y3J5cHQ=", "5.00")]
        responses.amount = "1099.00"
        var tomorrow = PayloadRecipe()
        tomorrow.extraMembers = ["\"tomorrow\":{\"deep\":[1e3,\"\\u00e9\",null]}", "\"transaction Amount\":\"x\""]
        var payloads = [emv, withoutECI, merchantToken, responses, tomorrow].map(\.json)
        // The payload's schema accepts any JSON object.
        payloads.append(Array("{}".utf8))
        payloads.append(Array("{ \"currencyCode\" : 840,\n \"transactionAmount\" : \"much\" }".utf8))
        for payload in payloads {
            for version in Self.merchants {
                let paymentToken = try SharedForge.mint.mint(
                    TokenRecipe(merchant: merchant(version).merchant, payload: payload))
                expectVerbatim(try await SharedDaemon.harness.decrypt(paymentToken), paymentToken)
            }
        }
    }

    @Test("fails to decrypt a payment token whose version does not match the key's algorithm")
    func otherAlgorithm() async throws {
        // The payment token is RSA_v1 and has the EC merchant's publicKeyHash.
        let rsa = try SharedForge.paymentToken(for: SharedForge.rsaMerchant.merchant)
        let ecHash = try SharedForge.ecMerchant.merchant.publicKeyHash
        let text = String(decoding: rsa.decryptBody(), as: UTF8.self).replacing(
            Data(rsa.publicKeyHash).base64EncodedString(), with: Data(ecHash).base64EncodedString())
        let answer = try await SharedDaemon.harness.decrypt(Array(text.utf8))
        #expect([400, 422].contains(answer.status), "\(answer)")
        #expect(
            ["malformed_token", "unsupported_version", "decryption_failed"].contains(answer.code ?? ""), "\(answer)")
    }
}

extension Array where Element == UInt8 {
    /// Returns true if `other` is a contiguous part of the array.
    func holds(_ other: [UInt8]) -> Bool { Data(self).range(of: Data(other)) != nil }
}
