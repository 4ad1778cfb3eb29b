import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The caller's expectations of the payment, which step 6 of Apple's document compares.
@Suite(.everyEngine) struct ExpectedDetailsTests {
    private func paymentToken(
        amount: String = "1099", currency: String = "840", applicationData: String? = nil
    ) throws -> MintedToken {
        var payload = PayloadRecipe()
        payload.amount = amount
        payload.currencyCode = currency
        return try SharedForge.mint.mint(
            TokenRecipe(
                merchant: SharedForge.ecMerchant.merchant, payload: payload.json,
                applicationData: applicationData.map { Array($0.utf8) }))
    }

    private func base64(_ text: String) -> String { Data(text.utf8).base64EncodedString() }

    @Test("decrypts a payment token that meets the expectations, and lists the checked members")
    func metExpectations() async throws {
        let paymentToken = try paymentToken(applicationData: "order 1")
        let answer = try await SharedDaemon.harness.decrypt(
            paymentToken,
            expected: """
                {"currencyCode":"840","transactionAmount":1099,"applicationData":"\(base64("order 1"))",\
                "merchantIdentifier":"merchant.com.example.shop"}
                """)
        #expect(answer.status == 200, "\(answer)")
        let checked = (answer.member("checked")?.arrayValue ?? []).compactMap(\.stringValue)
        #expect(
            Set(checked) == ["currencyCode", "transactionAmount", "applicationData", "merchantIdentifier"], "\(answer)")
    }

    @Test(
        "compares amounts as exact decimals",
        arguments: [
            ("1099", "1099.0", true), ("10.90", "10.9", true), ("1099", "1.099e3", true), ("1099", "1098", false),
            ("0.1", "0.10000000000000001", false), ("9007199254740993", "9007199254740992", false),
        ])
    func amountsAsDecimals(paid: String, expected: String, agree: Bool) async throws {
        let answer = try await SharedDaemon.harness.decrypt(
            paymentToken(amount: paid), expected: "{\"transactionAmount\":\(expected)}")
        #expect(answer.status == (agree ? 200 : 422), "\(answer)")
        if !agree { #expect(answer.code == "amount_mismatch") }
    }

    @Test("refuses a different or missing currency, merchant or applicationData with the documented code")
    func mismatches() async throws {
        let hash = SHA256.hash(data: Array("order 1".utf8)).hexadecimal
        let cases: [(paymentToken: MintedToken, expected: String, code: String?)] = [
            (try paymentToken(), "{\"currencyCode\":\"978\"}", "currency_mismatch"),
            (try paymentToken(), "{\"merchantIdentifier\":\"merchant.com.example.other\"}", "merchant_mismatch"),
            (try paymentToken(), "{\"applicationData\":\"\(base64("order 1"))\"}", "application_data_mismatch"),
            (
                try paymentToken(applicationData: "order 2"), "{\"applicationData\":\"\(base64("order 1"))\"}",
                "application_data_mismatch"
            ),
            (try paymentToken(applicationData: "order 1"), "{\"applicationData\":null}", "application_data_mismatch"),
            (try paymentToken(), "{\"applicationData\":null}", nil),
            (try paymentToken(applicationData: "order 1"), "{\"applicationDataHash\":\"\(hash)\"}", nil),
            (try paymentToken(applicationData: "order 1"), "{\"applicationDataHash\":\"\(hash.uppercased())\"}", nil),
            (
                try paymentToken(applicationData: "order 2"), "{\"applicationDataHash\":\"\(hash)\"}",
                "application_data_mismatch"
            ),
            // The daemon compares the currency before the amount.
            (try paymentToken(), "{\"currencyCode\":\"978\",\"transactionAmount\":1}", "currency_mismatch"),
        ]
        for (paymentToken, expected, code) in cases {
            let answer = try await SharedDaemon.harness.decrypt(paymentToken, expected: expected)
            #expect(answer.code == code, "\(expected): \(answer)")
            #expect(answer.status == (code == nil ? 200 : 422), "\(expected): \(answer)")
            if code != nil { #expect(!answer.body.holds(Array("applicationPrimaryAccountNumber".utf8))) }
        }
    }

    @Test("reports an unreadable currency or amount as a mismatch only if the caller expects one")
    func unreadableDetails() async throws {
        func odd() throws -> MintedToken {
            try SharedForge.mint.mint(
                TokenRecipe(
                    merchant: SharedForge.ecMerchant.merchant,
                    payload: Array("{\"currencyCode\":840,\"transactionAmount\":\"1099\"}".utf8)))
        }
        let harness = try await SharedDaemon.harness
        #expect(try await harness.decrypt(odd(), expected: "{\"currencyCode\":\"840\"}").code == "currency_mismatch")
        #expect(try await harness.decrypt(odd(), expected: "{\"transactionAmount\":1099}").code == "amount_mismatch")
        #expect(try await harness.decrypt(odd()).status == 200)
    }

    @Test("decrypts a payment token after a failed expectation if the next expectation is right")
    func failedExpectationClaimsNothing() async throws {
        let paymentToken = try paymentToken()
        let harness = try await SharedDaemon.harness
        #expect(
            try await harness.decrypt(paymentToken, expected: "{\"transactionAmount\":1}").code == "amount_mismatch")
        let answer = try await harness.decrypt(paymentToken, expected: "{\"transactionAmount\":1099}")
        #expect(answer.status == 200 && answer.member("repeated")?.boolValue == false, "\(answer)")
    }
}
