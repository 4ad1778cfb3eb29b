import CommandOutput
import DaemonAPI
import Encodings
import Testing

@testable import paytokenctl

/// The requests of `audit report` for the attributes of each key.
@Suite("Requests for keys' attributes")
struct KeyAttributeQuestionsTests {
    private static let other = String(repeating: "ab", count: 32)

    /// Returns a key as in the daemon's list of keys.
    private static func listed(_ hex: String) throws -> KeySummary {
        var key = try JSONCoding.decode(KeySummary.self, from: Array(Sample.key.utf8))
        key.publicKeyHash = Base64.encode(try #require(Hexadecimal.decode(hex)))
        return key
    }

    @Test("returns each key with the daemon's answer, or with the reason why there is no answer")
    func asked() async throws {
        let attributes = #","attributes":[{"away":true,"message":"It is not open.","token":"primary"}]}"#
        let daemon = try await FakeDaemon([
            "GET /v1/keys/\(Self.other)": .refusal(503, "ledger_unavailable", "Full."),
            "GET /v1/keys/\(Sample.hex)": .ok(String(Sample.key.dropLast()) + attributes),
        ])
        var odd = try Self.listed(Sample.hex)
        odd.publicKeyHash = "no base64"
        let keys = [try Self.listed(Self.other), odd, try Self.listed(Sample.hex)]
        let questions = KeyAttributeQuestions(connection: DaemonConnection(.admin, option: daemon.path))
        let answers = await questions.answers(for: keys)
        #expect(answers.keys.map(\.publicKeyHash) == keys.map(\.publicKeyHash))
        #expect(answers.keys.map { $0.attributes?.map(\.token) } == [nil, nil, ["primary"]])
        #expect(
            answers.faults == [
                keys[0].publicKeyHash: "ledger_unavailable: Full.",
                "no base64": "The daemon lists it under a name that is not a publicKeyHash.",
            ])
    }

    @Test("sends no request after the time limit, and reports every remaining key")
    func limit() async throws {
        let daemon = try await FakeDaemon(["GET /v1/keys/\(Sample.hex)": .ok(Sample.key)])
        let questions = KeyAttributeQuestions(
            connection: DaemonConnection(.admin, option: daemon.path), limit: .zero)
        let answers = await questions.answers(for: [try Self.listed(Sample.hex)])
        #expect(daemon.asked.isEmpty)
        #expect(answers.keys.map { $0.attributes == nil } == [true])
        #expect(
            answers.faults.values.allSatisfy { $0.contains("which was too short to reach this key") }
                && answers.faults.count == 1)
    }
}
