import Encodings
import Foundation
import Payments
import TestSupport
import Testing

@testable import Gateway

@Suite("A change of a client's key or name")
struct ClientChangeTests {
    private func pay(_ gateway: PaymentGateway, _ document: RadialDocument, key: String) async throws -> CurlAnswer {
        try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json", key: key)
    }

    @Test("returns, for a client's new key, the outcome of a payment made with the old one")
    func newKey() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        #expect(try await pay(gateway, document, key: PaymentGateway.key).status == 200)
        let status = try await gateway.ask(
            "/payments/apple-pay/\(document.transactionId)", key: PaymentGateway.newKey)
        #expect(status.status == 200 && status.string("status") == "authorized")
        #expect(try await pay(gateway, document, key: PaymentGateway.newKey).status == 200)
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    @Test("hides the payments of a name's former client from its new one, whose own are unaffected")
    func formerClient() async throws {
        let since = Date(timeIntervalSinceNow: -3600)
        let gateway = try await PaymentGateway(since: RFC3339.string(since))
        let (former, own) = (RadialDocument(), RadialDocument())
        // The former client's payment began a minute before the new client's `since`.
        let before = since.addingTimeInterval(-60)
        let identity = try PaymentRequest(parsing: former.submission, of: .applePay).tokenIdentity
        let transaction = try #require(Hexadecimal.decode(former.transactionId))
        guard
            case .begun(let begun, _) = try await gateway.store.begin(
                PaymentArrival(
                    key: .init(client: "shop", tokenDigest: identity.digest.normal), purpose: .payment,
                    requestDigest: PaymentRequest(parsing: former.submission, of: .applePay).digest(for: .payment)
                        .normal,
                    orderId: "order-1",
                    statedTransaction: transaction, attempt: PaymentAttempt(owner: "g", deadline: before)), at: before),
            case .claimed(let claimed) = try await gateway.store.claim(
                begun,
                PaymentTransaction(
                    identifier: transaction, merchantIdentifier: DecryptingPaytokend.merchant, amount: nil,
                    processor: "acquirer"), as: .submitting, nil, at: before)
        else { throw CancellationError() }
        _ = try await gateway.store.storeOutcome(
            claimed, as: .authorized, PaymentOutcome(authorizationCode: "F0RMER"), at: before)

        let asked = try await gateway.ask("/payments/apple-pay/\(former.transactionId)")
        #expect(asked.status == 404 && !asked.text.contains("F0RMER"))
        let brought = try await pay(gateway, former, key: PaymentGateway.key)
        #expect(brought.status == 409 && brought.string("code") == "transaction_replayed")
        // This request has the same transaction with other data and another order, which the former client did not
        // request.
        var other = former
        other.data = "AAECAwQG"
        other.orderId = "order-2"
        #expect(try await pay(gateway, other, key: PaymentGateway.key).status == 409)
        #expect(gateway.processor.submissions.current.isEmpty && gateway.paytokend.requests.current.isEmpty)

        #expect(try await pay(gateway, own, key: PaymentGateway.key).status == 200)
        #expect(try await gateway.ask("/payments/apple-pay/\(own.transactionId)").status == 200)
        await gateway.stop()
    }
}
