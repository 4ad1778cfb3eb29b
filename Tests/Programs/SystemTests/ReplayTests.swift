import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Single release of a transactionId.
@Suite(.everyEngine) struct ReplayTests {
    @Test("refuses the same payment token again as a replay with 409, without payment data")
    func replay() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        #expect(try await harness.decrypt(paymentToken).status == 200)
        let again = try await harness.decrypt(paymentToken)
        #expect(again.status == 409 && again.code == "transaction_replayed", "\(again)")
        #expect(again.member("paymentData") == nil)
        // A reference that arrives too late changes nothing.
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
    }

    @Test("treats the same reference as a repeat, and another one as a replay")
    func references() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        let first = try await harness.decrypt(paymentToken, reference: "order-1")
        #expect(first.status == 200 && first.member("repeated")?.boolValue == false, "\(first)")
        let second = try await harness.decrypt(paymentToken, reference: "order-1")
        #expect(second.status == 200 && second.member("repeated")?.boolValue == true, "\(second)")
        #expect(second.body.holds(Array("\"paymentData\":".utf8) + paymentToken.plaintext))
        #expect(try await harness.decrypt(paymentToken, reference: "order-2").code == "transaction_replayed")
        #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed")
    }

    @Test("treats other content under the same transactionId and reference as a replay")
    func otherContent() async throws {
        var recipe = TokenRecipe(merchant: try SharedForge.ecMerchant.merchant)
        let first = try SharedForge.mint.mint(recipe)
        recipe.payload = PayloadRecipe(.emv).json
        let second = try SharedForge.mint.mint(recipe)
        #expect(first.transactionIdentifier == second.transactionIdentifier)
        let harness = try await SharedDaemon.harness
        #expect(try await harness.decrypt(first, reference: "order-1").status == 200)
        #expect(try await harness.decrypt(second, reference: "order-1").code == "transaction_replayed")
    }

    @Test(
        "refuses a reference of no or too many characters, or unprintable ones, as malformed",
        arguments: ["", String(repeating: "x", count: 129), "tab\there", "é"])
    func badReferences(reference: String) async throws {
        let answer = try await SharedDaemon.harness.decrypt(SharedForge.paymentToken(), reference: reference)
        #expect(answer.status == 400 && answer.code == "malformed_request", "\(answer)")
    }

    @Test("releases exactly one of thirty simultaneous requests without a reference, and records each once")
    func thirtyAtOnce() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        let answers = try await Curl.simultaneously(
            "/v1/decrypt", socket: harness.socket, bodies: Array(repeating: paymentToken.decryptBody(), count: 30))
        #expect(answers.filter { $0.status == 200 }.count == 1)
        #expect(answers.filter { $0.status == 409 && $0.code == "transaction_replayed" }.count == 29)
        let records = try await StoredRecords.of(transaction: paymentToken.transactionIdentifier, in: harness)
        #expect(records.filter { $0.string("outcome") == "ok" }.count == 1)
        #expect(records.filter { $0.string("outcome") == "transaction_replayed" }.count == 29)
        expect(answers, areAnsweredWith: records)
    }

    @Test(
        "releases thirty simultaneous requests with one reference, one as the first, and records each once")
    func thirtyEqual() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        let answers = try await Curl.simultaneously(
            "/v1/decrypt", socket: harness.socket,
            bodies: Array(repeating: paymentToken.decryptBody(reference: "order-30"), count: 30))
        #expect(answers.allSatisfy { $0.status == 200 })
        #expect(answers.filter { $0.member("repeated")?.boolValue == false }.count == 1)
        let records = try await StoredRecords.of(transaction: paymentToken.transactionIdentifier, in: harness)
        #expect(records.filter { $0.string("outcome") == "ok" }.count == 1)
        #expect(records.filter { $0.string("outcome") == "repeat" }.count == 29)
        expect(answers, areAnsweredWith: records)
    }

    @Test(
        "treats thirty simultaneous attempts after the same one as one repeat and replays, also after a restart")
    func thirtyAttempts() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        let first = "00000000000000ff"
        #expect(try await harness.decrypt(paymentToken, reference: "order-1", attempt: first).status == 200)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        let bodies = (10..<40).map { number in
            paymentToken.decryptBody(reference: "order-1", attempt: "00000000000000\(number)", after: [first])
        }
        let answers = try await Curl.simultaneously("/v1/decrypt", socket: harness.socket, bodies: bodies)
        #expect(answers.count { $0.status == 200 && $0.member("repeated")?.boolValue == true } == 1)
        #expect(answers.count { $0.status == 409 && $0.code == "transaction_replayed" } == 29)
        #expect(try await harness.stop().status == 0)
    }

    /// Expects each answer to name its own record, with its own outcome.
    private func expect(_ answers: [CurlAnswer], areAnsweredWith records: [JSONValue]) {
        let named = answers.map { answer in
            let released = answer.member("repeated")?.boolValue == true ? "repeat" : "ok"
            return "\(answer.recordedAt ?? "-") \(answer.code ?? released)"
        }
        let kept = records.map { "\($0.sequence ?? "-") \($0.string("outcome") ?? "-")" }
        #expect(Set(named).count == answers.count)
        #expect(Set(named) == Set(kept))
    }

    @Test("keeps a claim across the daemon's restart")
    func restart() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").status == 200)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await harness.decrypt(paymentToken).code == "transaction_replayed")
        let again = try await harness.decrypt(paymentToken, reference: "order-1")
        #expect(again.status == 200 && again.member("repeated")?.boolValue == true, "\(again)")
        #expect(try await harness.stop().status == 0)
    }

    @Test("permits a hundred repeats of a claim, refused ones included, and sends no further one to the HSM")
    func mostRepeats() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        /// The number of openings requested of the worker.
        func openings() async throws -> Double {
            let values = try await harness.metric("paytokend_hsm_call_seconds_count", "operation=\"decrypt\"")
            return try #require(values.first)
        }
        func flood(_ paymentToken: MintedToken) async throws {
            let answers = try await Curl.simultaneously(
                "/v1/decrypt", socket: harness.socket,
                bodies: Array(repeating: paymentToken.decryptBody(reference: "order-1"), count: 30))
            #expect(answers.allSatisfy { $0.status == 409 && $0.code == "transaction_replayed" })
            #expect(answers.allSatisfy { $0.string("details")?.contains("its 100 repeats") == true }, "\(answers[0])")
        }
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").status == 200)
        for _ in 0..<90 { #expect(try await harness.decrypt(paymentToken, reference: "order-1").status == 200) }
        for _ in 0..<10 {
            let wrong = try await harness.decrypt(
                paymentToken, expected: "{\"transactionAmount\":1}", reference: "order-1")
            #expect(wrong.code == "amount_mismatch", "\(wrong)")
        }
        var before = try await openings()
        #expect(before >= 101)
        try await flood(paymentToken)
        #expect(try await openings() == before)
        // Others are served.
        #expect(try await harness.decrypt(SharedForge.paymentToken(), reference: "order-1").status == 200)

        // After a restart the first repeat may be opened once more, and reports that none is left.
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
        before = try await openings()
        try await flood(paymentToken)
        #expect(try await openings() == before)
        #expect(try await harness.stop().status == 0)
    }

    @Test("treats the same reference as a replay after repeat_for")
    func repeatFor() async throws {
        var configuration = DaemonConfiguration()
        configuration.ledger = ["repeat_for: 1s"]
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").status == 200)
        try await Task.sleep(for: .milliseconds(2200))
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
        #expect(try await harness.stop().status == 0)
    }
}
