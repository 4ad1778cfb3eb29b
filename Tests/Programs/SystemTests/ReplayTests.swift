import StrictJSON
import TestSupport
import Testing
import TokenForge

/// A transactionId is released once.
@Suite(.everyEngine) struct ReplayTests {
    @Test("the same token again is refused as a replay with 409, without payment data")
    func replay() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        #expect(try await harness.decrypt(paymentToken).status == 200)
        let again = try await harness.decrypt(paymentToken)
        #expect(again.status == 409 && again.code == "transaction_replayed", "\(again)")
        #expect(again.member("paymentData") == nil)
        // A reference that comes too late changes nothing.
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
    }

    @Test("with the same reference it is a repeat, with another a replay")
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

    @Test("another content under the same transactionId and reference is a replay")
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
        "a reference of no or too many characters, or unprintable ones, is malformed",
        arguments: ["", String(repeating: "x", count: 129), "tab\there", "é"])
    func badReferences(reference: String) async throws {
        let answer = try await SharedDaemon.harness.decrypt(SharedForge.paymentToken(), reference: reference)
        #expect(answer.status == 400 && answer.code == "malformed_request", "\(answer)")
    }

    @Test("of thirty simultaneous requests without a reference exactly one is released, and each is recorded once")
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
        "thirty simultaneous requests with one reference are all released, one as the first, and each is recorded once")
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
        "thirty simultaneous attempts after the same one are one repeat, also after a restart; the others are replays")
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

    /// Each answer names a record of its own, with its own outcome.
    private func expect(_ answers: [CurlAnswer], areAnsweredWith records: [JSONValue]) {
        let named = answers.map { answer in
            let released = answer.member("repeated")?.boolValue == true ? "repeat" : "ok"
            return "\(answer.recordedAt ?? "-") \(answer.code ?? released)"
        }
        let kept = records.map { "\($0.sequence ?? "-") \($0.string("outcome") ?? "-")" }
        #expect(Set(named).count == answers.count)
        #expect(Set(named) == Set(kept))
    }

    @Test("a claim survives the daemon's restart")
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

    @Test("a claim allows a hundred repeats, refused ones included; further ones do not reach the HSM")
    func mostRepeats() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        /// Openings that the worker was asked for.
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

        // After a restart the first that comes may be opened once more; it says that there is nothing left.
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
        before = try await openings()
        try await flood(paymentToken)
        #expect(try await openings() == before)
        #expect(try await harness.stop().status == 0)
    }

    @Test("past repeat_for the same reference is a replay too")
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
