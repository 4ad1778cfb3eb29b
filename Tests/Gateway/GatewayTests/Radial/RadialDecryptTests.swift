import ConfigurationFile
import Encodings
import Foundation
import Payments
import Processors
import Radial
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import Gateway

/// `POST /radial/decrypt` over TLS. This path returns card data, and does so only once and only to permitted clients.
@Suite("Radial's flow of two requests")
struct RadialDecryptTests {
    private static let path = "/radial/decrypt"

    private func code(_ answer: CurlAnswer) -> String? {
        answer.text.firstMatch(of: /<Code>([a-z_]+)<\/Code>/).map { String($0.1) }
    }

    private func hasCardData(_ answer: CurlAnswer, _ gateway: PaymentGateway) -> Bool {
        gateway.payload.secrets.contains { answer.text.contains($0) }
    }

    @Test("returns the data as Apple wrote them to a client with a certificate, and keeps no copy")
    func decrypted() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let answer = try await gateway.ask(Self.path, document.wallet, certificate: "client")
        #expect(answer.status == 200 && answer.header("Content-Type") == "application/json")
        #expect(answer.header("Cache-Control") == "no-store")
        #expect(answer.body == gateway.payload.json)
        let transaction = try #require(Hexadecimal.decode(document.transactionId))
        let payment = try #require(try await gateway.store.payment(transaction: transaction))
        #expect(payment.state == .released && payment.purpose == .release && payment.key.client == "backend")
        #expect(payment.transaction?.amount?.decimal == "10.99" && payment.transaction?.processor == nil)
        let log = gateway.log.current.joined(separator: "\n")
        #expect(log.contains(document.transactionId) && log.contains("request.outcome=released"))
        for secret in gateway.payload.secrets + [gateway.payload.expirationDate] {
            #expect(!log.contains(secret), "\(secret)")
        }
        // The store does not contain the secrets either.
        await gateway.stop()
        let stored = try Data(contentsOf: URL(filePath: gateway.directory.path("payments.sqlite")))
        for secret in gateway.payload.secrets { #expect(stored.range(of: Data(secret.utf8)) == nil) }
    }

    @Test("returns data once: it refuses the same client the second time without asking paytokend")
    func once() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        #expect(try await gateway.ask(Self.path, document.wallet, certificate: "client").status == 200)
        for _ in 1...2 {
            let again = try await gateway.ask(Self.path, document.wallet, certificate: "client")
            #expect(again.status == 409 && code(again) == "transaction_replayed")
            #expect(!hasCardData(again, gateway))
        }
        #expect(gateway.paytokend.requests.current.count == 1)
        await gateway.stop()
    }

    @Test("returns the data to one of ten simultaneous requests")
    func atOnce() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let answers = try await withThrowingTaskGroup(of: CurlAnswer.self) { group in
            for _ in 0..<10 {
                group.addTask { try await gateway.ask(Self.path, document.wallet, certificate: "client") }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.count { $0.status == 200 } == 1)
        #expect(answers.count { hasCardData($0, gateway) } == 1)
        #expect(answers.allSatisfy { [200, 409, 503].contains($0.status) }, "\(answers.map(\.status))")
        #expect(gateway.paytokend.requests.current.count == 1)
        await gateway.stop()
    }

    @Test("never pays a payment token whose data were returned, in either form or for any client")
    func neverPaid() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        #expect(try await gateway.ask(Self.path, document.wallet, certificate: "client").status == 200)
        let xml = try await gateway.ask("/radial/credit-card-auth", document.request, certificate: "client")
        #expect(xml.status == 422 && code(xml) == "token_used_differently")
        let json = try await gateway.ask(
            "/payments/apple-pay", document.submission, type: "application/json", certificate: "client")
        #expect(json.status == 422 && json.code == "token_used_differently")
        // paytokend no longer knows the release, so it would release the payment again. The gateway itself must refuse.
        gateway.paytokend.releases.change { $0 = [:] }
        let other = try await gateway.ask("/radial/credit-card-auth", document.request)
        #expect(other.status == 409 && code(other) == "transaction_replayed")
        // A status request does not show the release as a payment of this client.
        let status = try await gateway.ask("/payments/apple-pay/\(document.transactionId)", certificate: "client")
        #expect(status.status == 404)
        #expect(gateway.processor.submissions.current.isEmpty)
        await gateway.stop()
    }

    @Test(
        "never returns the data of a submitted payment token, with any outcome",
        arguments: [
            PaymentGateway.authorized(), .unknown(.connectionLost),
            .answered(ProcessorAnswer(.declined, PaymentOutcome(reason: "DECL"))),
        ])
    func paidBefore(outcome: SubmissionOutcome) async throws {
        let gateway = try await PaymentGateway([outcome])
        let document = RadialDocument()
        let paid = try await gateway.ask("/radial/credit-card-auth", document.request, certificate: "client")
        #expect(paid.status == 200 || code(paid) == "payment_pending")
        let own = try await gateway.ask(Self.path, document.wallet, certificate: "client")
        #expect(own.status == 422 && code(own) == "token_used_differently" && !hasCardData(own, gateway))
        // Another client paid with this payment token. paytokend has lost the release and would repeat it, so the
        // gateway itself must refuse.
        let others = RadialDocument()
        _ = try await gateway.ask("/radial/credit-card-auth", others.request)
        #expect(gateway.processor.submissions.current.count == 2)
        gateway.paytokend.releases.change { $0 = [:] }
        let stolen = try await gateway.ask(Self.path, others.wallet, certificate: "client")
        #expect(stolen.status == 409 && code(stolen) == "transaction_replayed" && !hasCardData(stolen, gateway))
        await gateway.stop()
    }

    @Test("returns nothing before the release is stored")
    func storeFirst() async throws {
        let gateway = try await PaymentGateway()
        gateway.paytokend.latch.close()
        let document = RadialDocument()
        async let asked = gateway.ask(Self.path, document.wallet, certificate: "client")
        try await wait(for: "paytokend to be asked") { gateway.paytokend.requests.current.count == 1 }
        await gateway.store.close()
        gateway.paytokend.latch.open()
        let answer = try await asked
        #expect(answer.status == 503 && code(answer) == "store_unavailable")
        #expect(!hasCardData(answer, gateway))
        await gateway.stop()
    }

    @Test("returns nothing for a bearer key, another merchant's client or no certificate")
    func others() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        let bearer = try await gateway.ask(Self.path, document.wallet)
        #expect(bearer.status == 403 && code(bearer) == "forbidden")
        let nobody = try await gateway.ask(Self.path, document.wallet, key: nil)
        #expect(nobody.status == 401 && code(nobody) == "unauthorized")
        #expect(gateway.paytokend.requests.current.isEmpty)
        let outsider = try await gateway.ask(Self.path, document.wallet, certificate: "other")
        #expect(outsider.status == 403 && code(outsider) == "forbidden" && !hasCardData(outsider, gateway))
        // The gateway named only the client's merchants, so paytokend claimed nothing. The right client can therefore
        // still use the payment token.
        #expect(gateway.paytokend.requests.current.isEmpty)
        #expect(try await gateway.ask(Self.path, document.wallet, certificate: "client").status == 200)
        await gateway.stop()
    }

    @Test("returns nothing for a bearer key even to a client that the configuration should have refused")
    func bearerWithOperation() async throws {
        let gateway = try await PaymentGateway()
        let routes = gateway.payments.routes
        let route = try #require(routes.first { $0.path == Self.path })
        let client = GatewayClient(
            name: "wrong", credentials: [.bearerKey(sha256: [UInt8](repeating: 0, count: 32))], operations: [.decrypt],
            merchants: [MerchantPattern("*")], domains: [])
        await #expect(throws: GatewayRefusal.self) {
            try await route.respond(
                GatewayRequest(
                    client: client, pathArguments: [], body: RadialDocument().wallet,
                    trace: TraceContext(traceparent: [])))
        }
        #expect(gateway.paytokend.requests.current.isEmpty)
        await gateway.stop()
    }

    @Test("refuses with paytokend's code, and permits another try if the payment token was not at fault")
    func refused() async throws {
        let gateway = try await PaymentGateway()
        let document = RadialDocument()
        for (status, refusal) in [(503, "hsm_unavailable"), (422, "signature_invalid")] {
            gateway.paytokend.refusal.change { $0 = (status, refusal) }
            let answer = try await gateway.ask(Self.path, document.wallet, certificate: "client")
            #expect(answer.status == status && code(answer) == refusal)
        }
        gateway.paytokend.refusal.change { $0 = nil }
        #expect(try await gateway.ask(Self.path, document.wallet, certificate: "client").status == 200)
        await gateway.stop()
    }

    @Test("names the element of a faulty document, and uses nothing up")
    func malformed() async throws {
        let gateway = try await PaymentGateway()
        var token = RadialDocument()
        token.version = "RSA_v1"
        let version = try await gateway.ask(Self.path, token.wallet, certificate: "client")
        #expect(version.status == 400 && code(version) == "unsupported_version")
        #expect(version.text.contains("<Element>WalletPaymentInformation/Version</Element>"))
        let whole = try await gateway.ask(Self.path, RadialDocument().request, certificate: "client")
        #expect(whole.status == 400)
        let json = try await gateway.ask(
            Self.path, RadialDocument().submission, type: "application/json", certificate: "client")
        #expect(json.status == 415)
        #expect(gateway.paytokend.requests.current.isEmpty)
        await gateway.stop()
    }
}
