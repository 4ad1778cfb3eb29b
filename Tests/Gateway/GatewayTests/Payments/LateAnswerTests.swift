import Encodings
import Payments
import Processors
import TestSupport
import Testing

@testable import Gateway

@Suite("A processor's answer after the payment's deadline")
struct LateAnswerTests {
    /// Returns a gateway with a payment that the processor did not answer in time, and the callback for the late
    /// answer.
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

    @Test("changes nothing if it only reports that the connection ended")
    func unknown() async throws {
        let (gateway, document, late) = try await pending()
        await late(.unknown(.connectionLost))
        let answer = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(answer.string("status") == "pending")
        await gateway.stop()
    }

    @Test("is logged and added to the history after a person has settled otherwise, with the account number masked")
    func contradicts() async throws {
        let (gateway, document, late) = try await pending()
        let transaction = try #require(Hexadecimal.decode(document.transactionId))
        let resolved = try await gateway.store.resolve(
            transaction: transaction, as: .error, by: "alice", reason: "no trace", at: .now)
        await late(PaymentGateway.authorized(reference: "x \(gateway.payload.accountNumber) y"))
        let answer = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(answer.string("status") == "error")
        let last = try #require(try await gateway.store.history(of: resolved.key).last)
        #expect(last.isContradiction && last.state == .authorized)
        let reason = try #require(last.reason)
        #expect(reason.contains("code A1B2C3") && !reason.contains(gateway.payload.accountNumber))
        let lines = gateway.log.current.filter { $0.contains("contradicts the stored status") }
        #expect(lines.count == 1 && lines.allSatisfy { $0.contains(document.transactionId) })
        let shown = try await Program.run(
            Program.built("paytoken-gateway"),
            ["payment", "show", document.transactionId, "--socket", gateway.directory.path("a.sock")])
        #expect(shown.output.contains("the processor answered authorized, but this payment is error"), "\(shown)")
        #expect(shown.output.contains("Ask the processor which is right"))
        await gateway.stop()
    }

    @Test("names the status path of the first request when the same payment token comes with another request")
    func usedDifferently() async throws {
        let (gateway, document, _) = try await pending()
        var other = document
        other.orderId = "order-2"
        let answer = try await gateway.ask("/payments/apple-pay", other.submission, type: "application/json")
        #expect(answer.status == 422 && answer.string("code") == "token_used_differently")
        #expect(answer.string("message")?.contains("GET /payments/apple-pay/{transactionId}") == true)
        #expect(answer.string("message")?.contains("may have submitted it") == true)
        #expect(answer.string("details") == document.transactionId)
        await gateway.stop()
    }
}
