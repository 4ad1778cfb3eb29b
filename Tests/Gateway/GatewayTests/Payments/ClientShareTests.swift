import DaemonAPI
import Payments
import TestSupport
import Testing

@testable import Gateway

@Suite("One client's share of the gateway")
struct ClientShareTests {
    private static let limited = "The expectations for this payment token were wrong too often"

    private func pay(
        _ gateway: PaymentGateway, _ document: RadialDocument, certificate: String? = nil
    ) async throws -> CurlAnswer {
        try await gateway.ask(
            "/payments/apple-pay", document.submission, type: "application/json", certificate: certificate)
    }

    /// Begins payments one after another. Each has reached paytokend, or the gateway's queue for it, before the next
    /// begins.
    private func begin(
        _ documents: [RadialDocument], at gateway: PaymentGateway, certificate: String? = nil
    ) async throws -> [Begun<Int?>] {
        var begun: [Begun<Int?>] = []
        for document in documents {
            let before = gateway.paytokend.requests.current.count + gateway.calls.waitingCount
            begun.append(Begun { try? await pay(gateway, document, certificate: certificate).status })
            try await wait(for: "another payment at paytokend or before it") {
                gateway.paytokend.requests.current.count + gateway.calls.waitingCount > before
            }
        }
        return begun
    }

    @Test("decrypts another client's payment after one of a busy client, and not after all")
    func turns() async throws {
        let gateway = try await PaymentGateway(maxConnections: 1)
        let (many, few) = ((0..<4).map { _ in RadialDocument() }, RadialDocument())
        gateway.paytokend.latch.close()
        let payments =
            try await begin(many, at: gateway) + begin([few], at: gateway, certificate: "client")
        #expect(gateway.calls.waitingCount == 4)
        gateway.paytokend.latch.open()
        for payment in payments { #expect(try await payment.value() == 200) }
        // paytokend had already received the first payment. After it, the clients take turns.
        #expect(gateway.paytokend.clients.current == ["shop", "shop", "backend", "shop", "shop"])
        #expect(gateway.paytokend.server.accepted == 1)
        await gateway.stop()
    }

    @Test("answers a payment beyond the client's limit with 429 and sends nothing; another client has its own limit")
    func limit() async throws {
        let gateway = try await PaymentGateway(maxPayments: 2)
        gateway.paytokend.latch.close()
        let held = try await begin([RadialDocument(), RadialDocument()], at: gateway)
        let refused = RadialDocument()
        let more = try await pay(gateway, refused)
        #expect(more.status == 429 && more.string("code") == "rate_limited" && more.string("details") == "2 at once")
        #expect(more.header("Retry-After") == "1")
        let radial = try await gateway.ask("/radial/credit-card-auth", RadialDocument().request)
        #expect(radial.status == 429 && radial.text.contains("rate_limited"))
        #expect(gateway.paytokend.requests.current.count == 2)
        let other = try await begin([RadialDocument()], at: gateway, certificate: "client")
        gateway.paytokend.latch.open()
        for payment in held + other { #expect(try await payment.value() == 200) }
        // The places are free again, and the payment token was not used up.
        #expect(try await pay(gateway, refused).status == 200)
        await gateway.stop()
    }

    @Test("answers 429 to a client after five wrong expectations for a payment token, also for right ones")
    func mismatches() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        gateway.paytokend.refusal.change { $0 = (422, "amount_mismatch") }
        for _ in 0..<5 {
            let answer = try await pay(gateway, document)
            #expect(answer.status == 422 && answer.string("code") == "amount_mismatch")
        }
        for isRight in [false, true] {
            if isRight { gateway.paytokend.refusal.change { $0 = nil } }
            let answer = try await pay(gateway, document)
            #expect(answer.status == 429 && answer.text.contains(Self.limited))
            #expect(answer.header("Retry-After").flatMap { Int($0) }.map { (1...600).contains($0) } == true)
        }
        #expect(gateway.paytokend.requests.current.count == 5)
        // The limit applies neither to a different payment token nor to another client.
        #expect(try await pay(gateway, RadialDocument()).status == 200)
        #expect(try await pay(gateway, document, certificate: "client").status == 200)
        await gateway.stop()
    }

    @Test("never answers 429 to right expectations, and counts no other refusal as a mismatch")
    func rightExpectations() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        for code in ["amount_mismatch", "currency_mismatch", "merchant_mismatch", "application_data_mismatch"] {
            gateway.paytokend.refusal.change { $0 = (422, code) }
            #expect(try await pay(gateway, document).status == 422)
        }
        for _ in 0..<3 {
            gateway.paytokend.refusal.change { $0 = (422, "signature_invalid") }
            #expect(try await pay(gateway, document).status == 422)
        }
        gateway.paytokend.refusal.change { $0 = nil }
        for _ in 0..<10 { #expect(try await pay(gateway, document).status == 200) }
        #expect(gateway.processor.submissions.current.count == 1)
        await gateway.stop()
    }

    @Test("forgets mismatches after their interval, and the oldest when the payment tokens exceed the limit")
    func interval() {
        let mismatches = ExpectationMismatches(.init(maximumMismatches: 2, interval: .seconds(10), maximumCounts: 2))
        let start = ContinuousClock.now
        func count(_ token: UInt8, at seconds: Int) {
            mismatches.countMismatch(for: [token], client: "a", now: start + .seconds(seconds))
        }
        func toWait(_ token: UInt8, _ client: String = "a", at seconds: Int) -> Int? {
            mismatches.secondsToWait(for: [token], client: client, now: start + .seconds(seconds))
        }
        count(1, at: 0)
        #expect(toWait(1, at: 0) == nil)
        count(1, at: 4)
        #expect(toWait(1, at: 4) == 6 && toWait(1, "b", at: 4) == nil && toWait(1, at: 10) == nil)
        count(1, at: 11)
        #expect(toWait(1, at: 11) == nil)
        count(1, at: 12)
        #expect(toWait(1, at: 12) == 9)
        count(2, at: 12)
        count(3, at: 12)
        #expect(toWait(1, at: 12) == nil)
    }

    @Test("returns a release whose answer was lost on a reused connection to the next request, and pays once")
    func lostAnswer() async throws {
        let gateway = try await PaymentGateway()
        #expect(try await pay(gateway, RadialDocument()).status == 200)
        // paytokend releases the payment and closes the reused connection without an answer, so the gateway sends the
        // request again.
        gateway.paytokend.losses.change { $0 = 1 }
        let document = RadialDocument()
        let lost = try await pay(gateway, document)
        #expect(lost.status == 503 && lost.string("code") == "paytokend_unavailable")
        let attempts = gateway.paytokend.requests.current.suffix(2).compactMap(\.common.attempt)
        #expect(attempts.count == 2 && attempts[0] == attempts[1])
        #expect(gateway.processor.submissions.current.count == 1)
        #expect(try await pay(gateway, document).status == 200)
        #expect(gateway.processor.submissions.current.count == 2)
        #expect(gateway.paytokend.requests.current.last?.common.after == [attempts[0]])
        await gateway.stop()
    }
}
