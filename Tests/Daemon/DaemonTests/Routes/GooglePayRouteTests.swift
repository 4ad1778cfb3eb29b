import Crypto
import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@testable import Daemon

@Suite("Verifying Google Pay tokens, without a worker")
struct GooglePayRouteTests {
    private let forge = GooglePayForge()
    private let tomorrow = Date(timeIntervalSince1970: (Date().timeIntervalSince1970 + 86_400).rounded(.down))
    private static let merchant = "BCR2DN4TEXAMPLE"
    private static let merchantMember = ",\"merchantIdentifier\":\"\(merchant)\""

    private func fixture() async throws -> PaymentRoutesFixture {
        try await PaymentRoutesFixture(googlePay: forge.rootKeys(expiration: tomorrow.addingTimeInterval(86_400)))
    }

    private func envelope() throws -> GooglePayEnvelope {
        try forge.mint(
            GooglePayForge.plaintext(expiring: tomorrow), to: P256.KeyAgreement.PrivateKey().publicKey,
            recipient: "merchant:\(Self.merchant)", expiration: tomorrow)
    }

    private func body(_ token: String, _ more: String = merchantMember) -> [UInt8] {
        Array("{\"token\":\(token)\(more)}".utf8)
    }

    private func verify(
        _ fixture: PaymentRoutesFixture, _ body: [UInt8]
    ) async throws -> (status: Int, members: JSONObject) {
        let answer = try await fixture.post("/v1/google-pay/verify", body)
        return (answer.status, try #require(try JSONValue(parsing: answer.body).objectValue))
    }

    @Test("answers with the transaction, the merchant, and both keys, and uses no merchant key")
    func verified() async throws {
        let fixture = try await fixture()
        let envelope = try envelope()
        for token in [envelope.json, JSONText.string(envelope.json)] {
            let (status, members) = try await verify(fixture, body(token))
            #expect(status == 200)
            #expect(
                members.members.map(\.name).sorted() == ["chain", "merchantIdentifier", "transactionId", "version"])
            #expect(members["version"] == .string("ECv2"))
            #expect(members["merchantIdentifier"] == .string(Self.merchant))
            let digest = SHA256.hash(data: Data(envelope.signedMessage.utf8)).hexadecimal
            #expect(members["transactionId"] == .string(digest))
            let chain = members["chain"]?.arrayValue?.compactMap(\.objectValue) ?? []
            let digests = [forge.intermediateKey, forge.root].map {
                SHA256.hash(data: $0.publicKey.derRepresentation).hexadecimal
            }
            #expect(chain.map { $0["sha256"]?.stringValue } == digests)
            let times = [tomorrow, tomorrow.addingTimeInterval(86_400)].map { $0.formatted(.iso8601) }
            #expect(chain.map { $0["notAfter"]?.stringValue } == times)
        }
        #expect(fixture.hsm.calls == 0)
        #expect(try await !fixture.record.entries.contains { $0.event == "verify" })
    }

    @Test("checks the expiry of Google's keys against `at` instead of the current time")
    func at() async throws {
        let fixture = try await fixture()
        let json = try envelope().json
        for (time, code) in [
            (tomorrow.addingTimeInterval(-1), nil), (tomorrow, "certificate_untrusted"),
            (tomorrow.addingTimeInterval(86_400), "certificate_untrusted"),
        ] {
            let at = ",\"at\":\"\(time.formatted(.iso8601))\""
            let (status, members) = try await verify(fixture, body(json, Self.merchantMember + at))
            #expect(status == (code == nil ? 200 : 422))
            #expect(members["code"]?.stringValue == code)
        }
        let malformed = try await verify(fixture, body(json, Self.merchantMember + ",\"at\":\"yesterday\""))
        #expect(malformed.status == 400 && malformed.members["code"] == .string("malformed_request"))
    }

    @Test("records a refusal with the wallet and the transaction, and never the merchant's identifier of the request")
    func recorded() async throws {
        let fixture = try await fixture()
        let envelope = try envelope()
        let (status, members) = try await verify(
            fixture, body(envelope.json, ",\"merchantIdentifier\":\"4111111111111111\""))
        #expect(status == 422 && members["code"] == .string("signature_invalid"))
        let entry = try #require(try await fixture.record.entries.last)
        #expect(entry.event == "verify" && entry.outcome == "signature_invalid")
        let recorded = String(decoding: try await fixture.recorded, as: UTF8.self)
        let line = try #require(recorded.split(separator: "\n").last)
        let digest = SHA256.hash(data: Data(envelope.signedMessage.utf8)).hexadecimal
        #expect(line.contains("\"transactionId\":\"\(digest)\",\"wallet\":\"google-pay\","))
        #expect(!line.contains("merchant") && !line.contains("4111"))
    }

    @Test(
        "refuses a malformed request",
        arguments: [
            ("", "merchantIdentifier"), (",\"merchantIdentifier\":1", "merchantIdentifier"),
            (",\"merchantIdentifier\":\"merchant:1\"", "merchantIdentifier"),
            (",\"merchantIdentifier\":\"merchant.com.example\"", "merchantIdentifier"),
            (",\"merchantIdentifier\":\"1\",\"expected\":{}", "known are: at, merchantIdentifier, token"),
        ])
    func malformedRequest(more: String, details: String) async throws {
        let (status, members) = try await verify(try await fixture(), body(envelope().json, more))
        #expect(status == 400 && members["code"] == .string("malformed_request"))
        #expect(members["details"] == .string(details))
    }

    @Test("refuses a payment token with a member twice as malformed, and Apple's as an unknown form")
    func malformedToken() async throws {
        let fixture = try await fixture()
        let twice = try envelope().json.replacing("{\"signature\"", with: "{\"signature\":\"\",\"signature\"")
        let apple = String(decoding: try fixture.mint().paymentToken, as: UTF8.self)
        for token in [twice, JSONText.string(twice), apple] {
            let (status, members) = try await verify(fixture, body(token))
            #expect(status == 400 && members["code"] == .string("malformed_token"))
        }
    }

    @Test("refuses every request without trust.google_pay, and says which setting is missing")
    func notConfigured() async throws {
        let (status, members) = try await verify(try await PaymentRoutesFixture(), body(envelope().json))
        #expect(status == 404 && members["code"] == .string("not_found"))
        #expect(members["details"] == .string("trust.google_pay"))
    }

    @Test("refuses Google Pay tokens as malformed on Apple Pay's paths, and names the path for them")
    func applePath() async throws {
        let fixture = try await fixture()
        let json = try envelope().json
        for (path, token) in [("decrypt", json), ("decrypt", JSONText.string(json)), ("verify", json)] {
            let refused = try await fixture.post("/v1/\(path)", body(token, ""))
            let members = try JSONValue(parsing: refused.body).objectValue
            #expect(refused.status == 400 && members?["code"] == .string("malformed_token"))
            #expect(members?["message"]?.stringValue?.contains("a payment token of Google Pay") == true)
            #expect(members?["details"] == .string("token.protocolVersion"))
        }
        let other = try await fixture.post("/v1/decrypt", body("{\"version\":1}", ""))
        #expect(try JSONValue(parsing: other.body).objectValue?["details"] == .string("token.version is not a string"))
        #expect(fixture.hsm.calls == 0)
    }
}
