import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The single release of each transactionId.
@Suite(.everyEngine) struct ReplayTests {
    @Test("refuses a repeated payment token as a replay with 409 and without payment data")
    func replay() async throws {
        let paymentToken = try SharedForge.paymentToken()
        let harness = try await SharedDaemon.harness
        #expect(try await harness.decrypt(paymentToken).status == 200)
        let again = try await harness.decrypt(paymentToken)
        #expect(again.status == 409 && again.code == "transaction_replayed", "\(again)")
        #expect(again.member("paymentData") == nil)
        // A reference in a later request does not turn the replay into a repeat.
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
    }

    @Test("repeats a release for the same reference, and refuses another reference as a replay")
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

    @Test("refuses other content with the same transactionId and reference as a replay")
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
        "refuses a reference that is empty, too long or has unprintable characters as malformed",
        arguments: ["", String(repeating: "x", count: 129), "tab\there", "é"])
    func badReferences(reference: String) async throws {
        let answer = try await SharedDaemon.harness.decrypt(SharedForge.paymentToken(), reference: reference)
        #expect(answer.status == 400 && answer.code == "malformed_request", "\(answer)")
    }

    @Test("releases exactly one of thirty simultaneous requests without a reference, and records each request once")
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
        "answers thirty simultaneous requests with one reference as one release and 29 repeats, and records each once")
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
        "repeats one of thirty simultaneous attempts that name the same previous attempt, even after a restart")
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

    /// Requires that each answer names a different audit record, which has the answer's outcome.
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

    @Test("permits a hundred repeats of a claim, including refused ones, and refuses more without a call to the HSM")
    func maximumRepeats() async throws {
        let harness = try await DaemonHarness(merchants: [SharedForge.ecMerchant])
        /// Returns the number of decryptions that the worker has performed.
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
        // The daemon still serves other payment tokens.
        #expect(try await harness.decrypt(SharedForge.paymentToken(), reference: "order-1").status == 200)

        // After a restart, the daemon may decrypt once more before it finds that no repeat is left.
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.decrypt(paymentToken, reference: "order-1").code == "transaction_replayed")
        before = try await openings()
        try await flood(paymentToken)
        #expect(try await openings() == before)
        #expect(try await harness.stop().status == 0)
    }

    @Test("refuses the same reference as a replay when repeat_for has passed")
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
