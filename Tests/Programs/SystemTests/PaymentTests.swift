import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Payments with all the real programs: paytokend with its key in an HSM token, the gateway, and the processor
/// simulator. The simulator's log shows the submissions.
@Suite struct PaymentTests {
    private static func member(_ name: String, of answer: CurlAnswer) throws -> String? {
        try JSONValue(parsing: answer.body).objectValue?[name]?.stringValue
    }

    @Test("reports each outcome at the processor or its absence, and submits nothing twice")
    func everyOutcome() async throws {
        let shop = try await Shop(deadline: "4s")
        // For each amount, to which the simulator reacts differently: the gateway's first answer to the client, and
        // the payment's final state.
        let rows: [(cents: Int, status: Int, at: String, end: String)] = [
            (1000, 200, "authorized", "authorized"), (1080, 200, "captured", "captured"),
            (1081, 422, "payment_declined", "declined"), (1083, 422, "payment_failed", "error"),
            (1084, 200, "pending", "authorized"), (1085, 200, "pending", "pending"),
            (1086, 200, "pending", "authorized"), (1087, 200, "pending", "authorized"),
            (1089, 200, "authorized", "authorized"), (1090, 200, "pending", "authorized"),
            (1091, 200, "pending", "error"), (1092, 200, "pending", "authorized"), (1093, 200, "pending", "authorized"),
        ]
        for row in rows {
            let token = try SharedForge.mint.mint(
                TokenRecipe(merchant: shop.merchant.merchant, payload: Self.payload(row.cents).json))
            let body = try shop.request(row.cents, token)
            let answer = try await shop.pay(body)
            #expect(answer.status == row.status, "\(row.cents): \(answer)")
            let told = try Self.member("status", of: answer) ?? Self.member("code", of: answer)
            #expect(told == row.at, "\(row.cents): \(answer)")
            try await eventually("the fate of \(row.cents)") {
                try await Self.member("status", of: shop.status(token.transactionIdentifier)) == row.end
            }
            // A repeated request returns the final outcome.
            let again = try await shop.pay(body)
            let fate = try Self.member("status", of: again) ?? Self.member("code", of: again)
            #expect(
                fate == ["declined": "payment_declined", "error": "payment_failed"][row.end] ?? row.end,
                "\(row.cents): \(again)")
        }
        #expect(try shop.submissions().values.allSatisfy { $0 == 1 })
        // For the amount of 1085 cents, the simulator closes the connection before it records the payment.
        #expect(try shop.submissions().count == rows.count - 1)
    }

    static func payload(_ cents: Int) -> PayloadRecipe {
        var payload = PayloadRecipe()
        payload.amount = "\(cents)"
        return payload
    }

    private func eventually(_ what: String, _ isSo: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(120)
        while try await !isSo() {
            try #require(ContinuousClock.now < deadline, "\(what) did not come")
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    @Test("uses a payment token for only one payment, of one client and one order", arguments: ShopWallet.allCases)
    func tokenUsedForOnePayment(wallet: ShopWallet) async throws {
        let shop = try await Shop(wallet)
        let token = try shop.token(1000)
        let answers = try await withThrowingTaskGroup(of: CurlAnswer.self) { group in
            for _ in 0..<30 { group.addTask { try await shop.pay(shop.request(1000, of: token)) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        // One request pays. The others receive the outcome, or 503 while the payment is under way.
        #expect(answers.allSatisfy { [200, 503].contains($0.status) }, "\(answers)")
        #expect(try answers.contains { try Self.member("status", of: $0) == "authorized" })
        #expect(
            try answers.filter { $0.status == 503 }.allSatisfy {
                try Self.member("code", of: $0) == "payment_under_way"
            })
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])

        let otherOrder = try await shop.pay(shop.request(1000, orderId: "order-2", of: token))
        #expect(otherOrder.status == 422 && otherOrder.text.contains("token_used_differently"), "\(otherOrder)")
        let otherClient = try await shop.pay(shop.request(1000, of: token), as: "other")
        #expect(otherClient.status == 409 && otherClient.text.contains("transaction_replayed"), "\(otherClient)")
        #expect(!otherClient.text.contains("authorized") && !otherClient.text.contains("shop"), "\(otherClient)")
        #expect(try await shop.status(token.transactionIdentifier, as: "other").status == 404)
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])
    }

    @Test("pays once for a payment token in Radial's XML, and replies with the outcome")
    func radial() async throws {
        let shop = try await Shop()
        for (cents, response, amount) in [(1000, "APPROVED", "10.00"), (1081, "DECL", "10.81"), (1085, nil, "")] {
            let token = try SharedForge.mint.mint(
                TokenRecipe(merchant: shop.merchant.merchant, payload: Self.payload(cents).json))
            for _ in 1...2 {
                let answer = try await shop.authorize(token)
                guard let response else {
                    #expect(answer.status == 503 && answer.text.contains("payment_pending"), "\(answer)")
                    continue
                }
                #expect(answer.status == 200, "\(answer)")
                #expect(answer.text.contains("<ResponseCode>\(response)</ResponseCode>"), "\(answer)")
                #expect(
                    answer.text.contains("<AmountAuthorized currencyCode=\"USD\">\(amount)</AmountAuthorized>"),
                    "\(answer)")
            }
            let inJSON = try await shop.pay(shop.request(cents, token))
            #expect(inJSON.status == 422 && inJSON.text.contains("token_used_differently"), "\(inJSON)")
        }
        // For an amount that ends in 85 cents, the simulator closes the connection before it records the payment.
        #expect(try shop.submissions().values.sorted() == [1, 1])
    }

    @Test("accepts a payment even if another client has sent a forgery of the payment token")
    func forgery() async throws {
        let shop = try await Shop()
        let token = try SharedForge.mint.mint(
            TokenRecipe(merchant: shop.merchant.merchant, payload: Self.payload(1000).json))
        var forged = String(decoding: token.paymentToken, as: UTF8.self)
        let signature = try #require(
            JSONValue(parsing: token.paymentData).objectValue?["signature"]?.stringValue)
        forged = forged.replacing(signature, with: String(signature.reversed()))
        let body = Array(
            "{\"token\":\(forged),\"orderId\":\"order-1\",\"expected\":{\"amount\":\"10.00\",\"currency\":\"USD\"}}"
                .utf8)
        let refused = try await shop.pay(body, as: "other")
        #expect([400, 422].contains(refused.status), "\(refused)")
        #expect(try await shop.pay(shop.request(1000, token)).status == 200)
    }

    @Test("does not use up a payment token that a client without its merchant sends")
    func outsider() async throws {
        let shop = try await Shop()
        let token = try SharedForge.mint.mint(
            TokenRecipe(merchant: shop.merchant.merchant, payload: Self.payload(1000).json))
        let refused = try await shop.pay(shop.request(1000, token), as: "outsider")
        #expect(refused.status == 403)
        #expect(try Self.member("code", of: refused) == "forbidden")
        #expect(try await shop.pay(shop.request(1000, token)).status == 200)
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])
    }

    @Test("does not use up a payment token for a wrong expectation, and accepts the right request afterwards")
    func wrongAmount() async throws {
        let shop = try await Shop()
        let token = try SharedForge.mint.mint(
            TokenRecipe(merchant: shop.merchant.merchant, payload: Self.payload(1000).json))
        // The amount is wrong by a factor of one hundred.
        let wrong = try await shop.pay(shop.request(1000, expecting: "1000", token))
        #expect(wrong.status == 422 && wrong.text.contains("amount_mismatch"), "\(wrong)")
        let right = try await shop.pay(shop.request(1000, token))
        #expect(right.status == 200, "\(right)")
        #expect(right.text.contains("\"amount\":10.00"), "\(right)")
    }

    @Test(
        "permits another attempt if the payment was not submitted because the processor was away",
        arguments: ShopWallet.allCases)
    func processorAway(wallet: ShopWallet) async throws {
        let shop = try await Shop(wallet)
        let token = try shop.token(1000)
        try await shop.stopSimulator()
        for _ in 0..<2 {
            let answer = try await shop.pay(shop.request(1000, of: token))
            #expect(answer.status == 503 && answer.text.contains("processor_unavailable"), "\(answer)")
        }
        try await shop.startSimulator()
        #expect(try await shop.pay(shop.request(1000, of: token)).status == 200)
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])
    }

    @Test(
        "does not repeat a submission that a kill interrupted, and lets an operator resolve the payment",
        arguments: ShopWallet.allCases)
    func killedWhileSubmitting(wallet: ShopWallet) async throws {
        let shop = try await Shop(wallet, deadline: "2s")
        // For this amount, the simulator records the payment and never answers.
        let token = try shop.token(1084)
        let body = shop.request(1084, of: token)
        async let lost = shop.pay(body)
        try await eventually("the submission") { try shop.submissions()[token.transactionIdentifier] == 1 }
        _ = try await shop.stopGateway(by: SIGKILL)
        _ = try? await lost
        // Without the simulator, the gateway cannot find out the outcome.
        try await shop.stopSimulator()
        try await shop.startGateway()
        let again = try await shop.pay(body)
        #expect(again.status == 200, "\(again)")
        #expect(try Self.member("status", of: again) == "pending")
        try await eventually("the payment to be taken over") {
            try await shop.command("show", token.transactionIdentifier).output.contains("interrupted")
        }
        let resolved = try await shop.command(
            "resolve", token.transactionIdentifier, "--status", "captured", "--reason", "seen in the report")
        #expect(resolved.status == 0, "\(resolved)")
        #expect(resolved.output.contains("seen in the report"), "\(resolved)")
        #expect(try await Self.member("status", of: shop.pay(body)) == "captured")
        let twice = try await shop.command(
            "resolve", token.transactionIdentifier, "--status", "declined", "--reason", "second thoughts")
        #expect(twice.status == 1 && twice.error.contains("invalid_state"), "\(twice)")
        #expect(try shop.submissions() == [token.transactionIdentifier: 1])
    }

    @Test(
        "pays no payment a second time after the store was restored from a copy", arguments: ShopWallet.allCases)
    func restoredStore(wallet: ShopWallet) async throws {
        let shop = try await Shop(wallet)
        let tokens = try (0..<2).map { _ in try shop.token(1000) }
        // The copy of the gateway's store contains the first payment with an attempt that sent nothing. It does not
        // contain the second payment.
        try await shop.stopSimulator()
        #expect(try await shop.pay(shop.request(1000, of: tokens[0])).status == 503)
        _ = try await shop.stopGateway(by: SIGTERM)
        let store = shop.directory.path("payments.sqlite")
        try FileManager.default.copyItem(atPath: store, toPath: store + ".copy")
        try await shop.startSimulator()
        try await shop.startGateway()
        for token in tokens { #expect(try await shop.pay(shop.request(1000, of: token)).status == 200) }
        _ = try await shop.stopGateway(by: SIGTERM)
        for name in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store + name) }
        try FileManager.default.moveItem(atPath: store + ".copy", toPath: store)
        try await shop.startGateway()
        for _ in 0..<3 {
            for token in tokens {
                let answer = try await shop.pay(shop.request(1000, of: token))
                #expect(answer.status == 409 && answer.text.contains("transaction_replayed"), "\(answer)")
            }
        }
        #expect(try shop.submissions().values.sorted() == [1, 1])
    }

    @Test("passes the trace of a payment through the gateway to paytokend's log and audit record")
    func trace() async throws {
        let shop = try await Shop()
        let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
        let answer = try await shop.pay(shop.request(1000), trace: "00-\(trace)-\(parent)-01")
        #expect(answer.status == 200, "\(answer)")
        let list = try await shop.harness.paytokenctl(["audit", "list", "--limit", "10", "--output", "json"])
        let record = try #require(
            String(decoding: list.outputBytes, as: UTF8.self).split(separator: "\n").first { $0.contains("traceId") },
            "\(list)")
        #expect(record.contains("\"traceId\":\"\(trace)\""), "\(record)")
        let log = try await shop.stopGateway(by: SIGTERM)
        let line = try #require(
            log.split(separator: "\n").first { $0.contains("\"request.endpoint\":\"/payments/apple-pay\"") }, "\(log)")
        let members = try #require(try JSONValue(parsing: Array(line.utf8)).objectValue)
        #expect(members["trace.id"]?.stringValue == trace && members["parent.id"]?.stringValue == parent)
        let span = try #require(members["span.id"]?.stringValue)
        #expect(span != parent && record.contains("\"parentId\":\"\(span)\""), "\(record)")
    }

    @Test(
        "serves the gateway's metrics over TCP in a form that promtool accepts",
        .enabled(if: Promtool.path != nil, "there is no promtool; scripts/prometheus-programs unpacks it"))
    func promtool() async throws {
        let shop = try await Shop()
        #expect(try await shop.pay(shop.request(1000)).status == 200)
        #expect(try await shop.pay(Array("{}".utf8)).status == 400)
        #expect(try await shop.pay(shop.request(1000), as: "nobody").status == 401)
        let (server, origin) = try await MetricsServer.serve(shop.directory.path("a"))
        let metrics = try await Curl.request("/metrics", socket: nil, origin: origin)
        #expect(metrics.status == 200)
        #expect(metrics.metric("paytoken_gateway_payments_total").contains(1))
        #expect(try await Promtool.complaints(about: metrics.body) == "")
        let other = try await Curl.request("/v1/payments/list", socket: nil, origin: origin, body: Array("{}".utf8))
        #expect(other.status == 404)
        server.signal(SIGTERM)
        #expect(try await server.result().status == 0)
        _ = try await shop.stopGateway(by: SIGTERM)
    }

    @Test("writes no card data to logs, stores, metrics and lists")
    func secrecy() async throws {
        let shop = try await Shop()
        var payload = Self.payload(1000)
        payload.cardholderName = "Secretive Cardholder"
        let token = try SharedForge.mint.mint(TokenRecipe(merchant: shop.merchant.merchant, payload: payload.json))
        #expect(try await shop.pay(shop.request(1000, token)).status == 200)
        var declined = Self.payload(1081)
        declined.accountNumber = payload.accountNumber
        _ = try await shop.pay(
            shop.request(
                1081, try SharedForge.mint.mint(TokenRecipe(merchant: shop.merchant.merchant, payload: declined.json))))
        let metrics = try await Curl.request("/metrics", socket: shop.directory.path("a"))
        let list = try await shop.command("list", "--output", "json")
        let store = ["", "-wal"].flatMap { suffix in
            [UInt8]((try? Data(contentsOf: URL(filePath: shop.directory.path("payments.sqlite" + suffix)))) ?? Data())
        }
        let log = try await shop.stopGateway(by: SIGTERM)
        #expect(log.contains(token.transactionIdentifier))
        let written: [(String, [UInt8])] = [
            ("the log", Array(log.utf8)), ("metrics", metrics.body), ("a list", list.outputBytes), ("the store", store),
            ("the simulator's log", Array(try Data(contentsOf: URL(filePath: shop.directory.path("log"))))),
        ]
        for secret in payload.secrets + declined.secrets + ["Secretive Cardholder"] {
            for (place, bytes) in written {
                #expect(Data(bytes).range(of: Data(secret.utf8)) == nil, "a secret in \(place)")
            }
        }
        #expect(Data(store).range(of: Data(hex: token.transactionIdentifier)) != nil)
    }
}

extension Data {
    fileprivate init(hex text: String) {
        let digits = Array(text.utf8)
        self.init(
            stride(from: 0, to: digits.count - 1, by: 2).compactMap {
                UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16)
            })
    }
}
