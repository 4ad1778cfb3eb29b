import Foundation
import StrictJSON
import TestSupport
import Testing

/// Payments with Google Pay through all the real programs. ``PaymentTests`` has the rules that both wallets share.
extension PaymentTests {
    @Test("pays the amount that the client states with a Google Pay message, and records it")
    func googlePayStatement() async throws {
        let shop = try await Shop(.googlePay)
        let token = try shop.token(1080)
        let body = shop.request(1080, of: token)
        // The client `outsider` has no google_pay.
        let refused = try await shop.pay(body, as: "outsider")
        #expect(refused.status == 403 && refused.code == "forbidden", "\(refused)")
        let paid = try await shop.pay(body)
        #expect(paid.status == 200 && paid.member("status") == .string("captured"), "\(paid)")
        #expect(paid.text.contains(#""amount":10.80"#))
        // With Google Pay nothing but the gateway's own row shows a wrong amount in a repeated request.
        let other = try await shop.pay(shop.request(1000, of: token))
        #expect(other.status == 422 && other.code == "token_used_differently", "\(other)")
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])

        let list = try await shop.harness.paytokenctl(["audit", "list", "--limit", "20", "--output", "json"])
        let records = try #require(JSONValue(parsing: list.outputBytes).arrayValue, "\(list)")
        let members = try #require(
            records.compactMap(\.objectValue).first { $0["transactionId"]?.stringValue == token.transactionIdentifier })
        #expect(members["wallet"] == .string("google-pay") && members["outcome"] == .string("ok"))
        #expect(members["amount"] == .string("10.80") && members["currency"] == .string("USD"))
        let log = try await shop.stopGateway(by: SIGTERM)
        #expect(!log.contains("4111111111111111") && !log.contains("AgAAAAAABk4DWZ4C28yUQAAAAAA="))
    }

    @Test("refuses a card's own number that the processor does not take, and claims nothing at paytokend")
    func panOnly() async throws {
        let shop = try await Shop(.googlePay)
        let token = try shop.token(1000, authMethod: "PAN_ONLY")
        for _ in 0..<2 {
            let refused = try await shop.pay(shop.request(1000, of: token))
            #expect(refused.status == 422 && refused.code == "auth_method_not_allowed", "\(refused)")
        }
        #expect(try shop.submissions().isEmpty)
        // paytokend's own rule permits it, so the gateway alone refused, and the message is not used up.
        let body =
            Array("{\"token\":".utf8) + token.json
            + Array(
                ",\"merchantIdentifier\":\"\(GooglePayDecryptionTests.merchant)\",\"amount\":\"10.00\",\"currency\":\"USD\"}"
                    .utf8)
        let released = try await Curl.request("/v1/google-pay/decrypt", socket: shop.harness.socket, body: body)
        #expect(released.status == 200 && released.member("repeated") == .bool(false), "\(released)")
    }
}
