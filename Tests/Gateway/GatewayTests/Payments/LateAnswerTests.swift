import Encodings
import Payments
import Processors
import TestSupport
import Testing

@testable import Gateway

@Suite("A processor's answer that comes after the payment's deadline")
struct LateAnswerTests {
    /// A gateway with a payment that was submitted and not answered in time.
    private func pending() async throws -> (PaymentGateway, RadialDocument, LateOutcome) {
        let gateway = try await PaymentGateway([.unknown(.noAnswerInTime)])
        let document = RadialDocument()
        let answer = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(answer.status == 200 && answer.string("status") == "pending")
        return (gateway, document, try #require(gateway.processor.late.current.first))
    }

    @Test("settles the payment, which is not sent again")
    func settles() async throws {
        let (gateway, document, late) = try await pending()
        await late(PaymentGateway.authorized())
        for body in [nil, document.submission] {
            let path = body == nil ? "/payments/apple-pay/\(document.transactionId)" : "/payments/apple-pay"
            let answer = try await gateway.ask(path, body, type: "application/json")
            #expect(answer.string("status") == "authorized" && answer.string("authorizationCode") == "A1B2C3")
        }
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    @Test("changes nothing where it tells no more than that the connection ended")
    func unknown() async throws {
        let (gateway, document, late) = try await pending()
        await late(.unknown(.connectionLost))
        let answer = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(answer.string("status") == "pending")
        await gateway.stop()
    }
}
