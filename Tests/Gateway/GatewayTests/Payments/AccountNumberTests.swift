import Encodings
import Foundation
import Payments
import Processors
import TestSupport
import Testing
import TokenForge

@testable import Gateway

@Suite("A processor that repeats the account number")
struct AccountNumberTests {
    private func outcome(_ text: String) -> PaymentOutcome {
        PaymentOutcome(reason: text, authorizationCode: text, processorReference: text, processedAt: Date())
    }

    /// One account number has a correct check digit, and is found by its form. The other has a wrong check digit within
    /// a longer row of digits, and is found by its digest.
    @Test(
        "is neither stored nor answered from a later status answer",
        arguments: [("4817499130000004", "card 4817x4991x3000x0004"), ("4817499130000005", "99481749913000000512")])
    func later(number: String, text: String) async throws {
        var payload = PayloadRecipe()
        payload.accountNumber = number
        let gateway = try await PaymentGateway(
            [.unknown(.connectionLost)], laterStatus: .known(ProcessorAnswer(.captured, outcome(text))),
            payload: payload)
        let document = RadialDocument()
        let paid = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(paid.string("status") == "pending")
        let name = try #require(Hexadecimal.decode(document.transactionId))
        let pending = try #require(try await gateway.store.payment(transaction: name))
        #expect(pending.transaction?.accountDigest?.count == 33)

        await gateway.payments.upkeep.runStoreRound(at: Date())
        await gateway.payments.upkeep.askProcessors(at: Date(timeIntervalSinceNow: 60))
        let settled = try #require(try await gateway.store.payment(transaction: name))
        #expect(settled.state == .captured && settled.transaction?.accountDigest == nil)
        let masked = AccountNumberForm.masked(text)
        #expect(settled.outcome?.reason == masked && settled.outcome?.authorizationCode == masked)
        #expect(settled.outcome?.processorReference == masked)
        let told = try await gateway.ask("/payments/apple-pay/\(document.transactionId)")
        #expect(told.string("status") == "captured" && told.string("authorizationCode") == masked)
        let log = gateway.log.current.joined(separator: "\n")
        #expect(log.contains("look like an account number") && !log.contains(text) && !log.contains(number))
        #expect(try await gateway.store.history(of: settled.key).allSatisfy { $0.reason?.contains(text) != true })
        await gateway.stop()
    }

    @Test(
        "is neither stored nor answered from the answer to the submission",
        arguments: ["48174991x30000005", "7748174991300000051"])
    func atOnce(text: String) async throws {
        var payload = PayloadRecipe()
        payload.accountNumber = "4817499130000005"
        let gateway = try await PaymentGateway(
            [.answered(ProcessorAnswer(.authorized, outcome(text)))], payload: payload)
        let document = RadialDocument()
        let paid = try await gateway.ask("/payments/apple-pay", document.submission, type: "application/json")
        #expect(paid.string("authorizationCode") == AccountNumberForm.masked(text))
        let log = gateway.log.current.joined(separator: "\n")
        #expect(log.contains("look like an account number") && !log.contains(text))
        await gateway.stop()
    }
}
