import ProcessorSimulator
import Testing

/// Parsing of submissions' bodies.
@Suite struct SubmissionTests {
    @Test("keeps the payment and its amount, and ignores unknown members")
    func whole() throws {
        let submission = try Submission(
            body: Array(SubmissionRequest(cents: 99).with("tomorrow", "[{}]").body.utf8))
        #expect(submission.payment == SubmissionRequest.payment)
        #expect(submission.amount.minorUnits == 1099 && submission.amount.currency.letters == "USD")
    }

    @Test("accepts a missing or null eciIndicator", arguments: [nil, "null", "\"7\"", "\"05\""])
    func indicator(_ json: String?) throws {
        _ = try Submission(body: Array(SubmissionRequest().with("eciIndicator", json).body.utf8))
    }

    @Test(
        "reads amounts in currencies without decimals and with three",
        arguments: [("JPY", "1099", 1099), ("KWD", "1.099", 1099)])
    func decimals(_ currency: String, _ amount: String, _ minorUnits: Int) throws {
        let request = SubmissionRequest().with("currency", "\"\(currency)\"").with("amount", "\"\(amount)\"")
            .with("minorUnits", "\(minorUnits)")
        #expect(try Submission(body: Array(request.body.utf8)).amount.minorUnits == 1099)
    }

    @Test(
        "refuses a malformed submission with the member's name and without the member's value",
        arguments: [
            ("payment", "\"\(String(repeating: "0A", count: 32))\""), ("payment", "\"0a\""), ("payment", "1"),
            ("payment", nil), ("amount", "\"10.000\""), ("amount", "10.00"), ("amount", "\"1e3\""), ("amount", nil),
            ("currency", "\"usd\""), ("currency", "\"840\""), ("currency", nil), ("minorUnits", "1000.0"),
            ("minorUnits", "\"1000\""), ("minorUnits", "-1000"), ("minorUnits", nil),
            ("accountNumber", "\"41111111111\""),
            ("accountNumber", "\"4111 1111 1111 1111\""), ("accountNumber", "\"41111111111111111111\""),
            ("accountNumber", nil), ("expirationDate", "\"3012\""), ("expirationDate", "\"301331\""),
            ("expirationDate", "\"301200\""), ("expirationDate", nil), ("cryptogram", "\"\""),
            ("cryptogram", "\"A\""), ("cryptogram", nil), ("eciIndicator", "5"), ("eciIndicator", "\"005\""),
        ])
    func malformed(_ member: String, _ json: String?) throws {
        let body = SubmissionRequest().with(member, json).body
        let refusal = #expect(throws: MalformedSubmission.self) { try Submission(body: Array(body.utf8)) }
        let message = try #require(refusal?.message)
        #expect(message.contains(member))
        for value in [SubmissionRequest.accountNumber, SubmissionRequest.cryptogram, "4111", "301331"] {
            #expect(!message.contains(value))
        }
    }

    @Test("refuses an amount that differs from the minor units by the factor 100")
    func factor() {
        let body = SubmissionRequest().with("minorUnits", "100000").body
        #expect(throws: MalformedSubmission.self) { try Submission(body: Array(body.utf8)) }
    }

    @Test(
        "refuses a body that is not a JSON object",
        arguments: ["", "[]", "{", "{\"payment\":1,\"payment\":1}", "nonsense"])
    func noObject(_ text: String) {
        #expect(throws: MalformedSubmission.self) { try Submission(body: Array(text.utf8)) }
    }
}
