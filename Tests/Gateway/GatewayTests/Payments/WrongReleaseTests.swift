import TestSupport
import Testing

@testable import Gateway

/// paytokend refuses what its caller may not have. The gateway does not rely on that alone.
@Suite("A release that the gateway's client may not have")
struct WrongReleaseTests {
    @Test(
        "is not asked for if the request names another client's merchant, or leaves out what the client must state",
        arguments: [
            (#"{"amount":"10.99","currency":"USD","merchantIdentifier":"merchant.com.else.shop"}"#, 403, "forbidden"),
            ("{}", 400, "element_missing"), (#"{"currency":"USD"}"#, 400, "element_missing"),
        ])
    func refusedBefore(expected: String, status: Int, code: String) async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let refused = try await gateway.ask(
            "/payments/apple-pay", document.submission(expected: expected), type: "application/json")
        #expect(refused.status == status && refused.string("code") == code)
        #expect(gateway.paytokend.requests.current.isEmpty)
        let paid = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(paid.status == 200 && gateway.paytokend.requests.current.count == 1)
        await gateway.stop()
    }

    @Test("submits nothing for the release of another transaction, and permits another attempt")
    func otherTransaction() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        gateway.paytokend.wrong.change { $0.transaction = String(repeating: "ee", count: 32) }
        let refused = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(refused.status == 500 && refused.string("code") == "internal_error")
        #expect(gateway.processor.submissions.current.isEmpty)
        gateway.paytokend.wrong.change { $0.transaction = nil }
        let paid = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(paid.status == 200)
        #expect(gateway.processor.submissions.current.map(\.transactionId) == [document.transactionId])
        await gateway.stop()
    }

    @Test("does not submit the payment of a merchant that the client's entry does not name")
    func otherMerchant() async throws {
        let gateway = try await PaymentGateway()
        gateway.paytokend.wrong.change { $0.merchant = "merchant.com.else.shop" }
        let refused = try await gateway.ask(
            "/payments/apple-pay", RadialDocument().submission, type: "application/json")
        #expect(refused.status == 403 && refused.string("code") == "forbidden")
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }
}
