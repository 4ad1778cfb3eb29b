import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import Daemon

/// Outside the signing-time window, a payment is only repeated.
@Suite("Decrypt outside the signing-time window, without a worker")
struct WindowRoutesTests {
    /// Returns a payment token that is half an hour old, which the worker's stand-in then opens.
    private func old(_ fixture: PaymentRoutesFixture) throws -> MintedToken {
        let payload = PayloadRecipe().json
        fixture.hsm.opens(to: payload)
        return try SharedForge.mint.mint(
            TokenRecipe(
                merchant: fixture.merchant.merchant, payload: payload,
                signingTime: Date(timeIntervalSinceNow: -1800)))
    }

    @Test("refuses a payment token that was never released before it calls the HSM, with a reference too")
    func neverReleased() async throws {
        let fixture = try await PaymentRoutesFixture()
        let answer = try await fixture.post("/v1/decrypt", old(fixture).decryptBody(reference: "r"))
        let code = try JSONValue(parsing: answer.body).objectValue?["code"]
        #expect(answer.status == 422 && code == .string("signing_time_outside_window"))
        #expect(fixture.hsm.calls == 0)
    }

    @Test("releases nothing if the claim is removed while the HSM opens the payment token")
    func claimRemoved() async throws {
        let fixture = try await PaymentRoutesFixture(rule: "signing_time_window: 1h")
        let body = try old(fixture).decryptBody(reference: "r")
        #expect(try await fixture.post("/v1/decrypt", body).status == 200)
        try fixture.change(rule: "signing_time_window: 5m")
        fixture.hsm.opening.change { $0 = { try? fixture.removeClaims() } }
        let answer = try await fixture.post("/v1/decrypt", body)
        #expect(fixture.hsm.calls == 2)
        #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string("transaction_replayed"))
    }

    @Test("refuses an attempt that does not name the last one, before it calls the HSM")
    func attemptsOutsideWindow() async throws {
        let fixture = try await PaymentRoutesFixture(rule: "signing_time_window: 1h")
        let paymentToken = try old(fixture)
        func post(_ attempt: String, after: [String] = []) async throws -> (status: Int, code: JSONValue?) {
            let body = paymentToken.decryptBody(reference: "r", attempt: attempt, after: after)
            let answer = try await fixture.post("/v1/decrypt", body)
            return (answer.status, try JSONValue(parsing: answer.body).objectValue?["code"])
        }
        let names = (1...3).map { "00000000000000a\($0)" }
        #expect(try await post(names[0]).status == 200)
        try fixture.change(rule: "signing_time_window: 5m")
        #expect(try await post(names[1]).code == .string("transaction_replayed"))
        #expect(fixture.hsm.calls == 1)
        #expect(try await post(names[2], after: [names[0]]).status == 200)
        #expect(fixture.hsm.calls == 2)
    }
}
