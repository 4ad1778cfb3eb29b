import Crypto
import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import StrictJSON
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

@Suite("Decrypting Google Pay messages, without a worker")
struct GooglePayDecryptionTests {
    static let merchant = "BCR2DN4TEXAMPLE"
    static let cryptogram = "AgAAAAAABk4DWZ4C28yUQAAAAAA="
    static let rule =
        "wallets: [apple-pay, google-pay], google_pay: { merchants: [BCR2DN4TEXAMPLE], auth_methods: [CRYPTOGRAM_3DS] }"
    static let now = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    static let nextWeek = now.addingTimeInterval(7 * 86_400 - 60)

    let forge = GooglePayForge()

    /// - Parameters:
    ///   - keys: the merchant's keys, each with its age in days.
    ///   - cutOff: the cut-off of the keys that are deactivated, in days from now; nil for none.
    func fixture(
        rule: String = rule, keys: [(age: Double, state: KeyState)] = [(1, .active)], cutOff: Double? = nil,
        opening: FirstOpening = FirstOpening(isOver: true)
    ) async throws -> (PaymentRoutesFixture, [PublicKeyHash]) {
        let made = keys.map { key in
            let der = Array(P256.KeyAgreement.PrivateKey().publicKey.derRepresentation)
            return (
                subjectPublicKeyInfo: der,
                keyRecord: KeyRecord(
                    publicKeyHash: .of(subjectPublicKeyInfo: der), merchantIdentifier: Self.merchant, algorithm: .ec,
                    use: .googlePay, state: key.state,
                    cutOff: key.state == .deactivated ? cutOff.map { Self.now.addingTimeInterval($0 * 86_400) } : nil,
                    createdAt: Self.now.addingTimeInterval(-key.age * 86_400),
                    origin: .generated)
            )
        }
        let fixture = try await PaymentRoutesFixture(
            rule: rule, googlePay: forge.rootKeys(expiration: Self.nextWeek), googlePayKeys: made, opening: opening)
        return (fixture, made.map(\.keyRecord.publicKeyHash))
    }

    static func plaintext(
        expiring: Date = nextWeek, messageId: String = UUID().uuidString, method: String = "CRYPTOGRAM_3DS"
    ) -> [UInt8] {
        Array(
            """
            {"messageExpiration":"\(GooglePayText.time(expiring))","messageId":"\(messageId)","paymentMethod":"CARD",\
            "paymentMethodDetails":{"pan":"4111111111111111","expirationMonth":12,"expirationYear":2030,\
            "authMethod":"\(method)","cryptogram":"\(cryptogram)"}}
            """.utf8)
    }

    /// A message whose plaintext the worker's stand-in knows.
    func message(
        _ fixture: PaymentRoutesFixture, _ plaintext: [UInt8] = Self.plaintext(), keyExpiration: Date = nextWeek,
        merchant: String = merchant
    ) throws -> GooglePayEnvelope {
        fixture.hsm.opens(to: plaintext)
        return try forge.mint(
            plaintext, to: P256.KeyAgreement.PrivateKey().publicKey, recipient: "merchant:\(merchant)",
            expiration: keyExpiration)
    }

    func decrypt(
        _ fixture: PaymentRoutesFixture, _ envelope: GooglePayEnvelope, reference: String? = "order-1",
        merchant: String = merchant, _ more: String = ""
    ) async throws -> (status: Int, code: String?, members: JSONObject) {
        let reference = reference.map { ",\"reference\":\"\($0)\"" } ?? ""
        let answer = try await fixture.post(
            "/v1/google-pay/decrypt",
            Array(
                """
                {"token":\(envelope.json),"merchantIdentifier":"\(merchant)","amount":"10.99","currency":"EUR"\(reference)\
                \(more)}
                """.utf8))
        let members = try #require(try JSONValue(parsing: answer.body).objectValue)
        return (answer.status, members["code"]?.stringValue, members)
    }

    @Test("answers with the plaintext byte for byte, and records wallet, amount and the keys that were tried")
    func released() async throws {
        let (fixture, keys) = try await fixture(keys: [(9, .active), (1, .active)])
        let plaintext = Self.plaintext()
        let envelope = try message(fixture, plaintext)
        fixture.hsm.onlyKey.change { $0 = keys[0].bytes }
        let (status, _, members) = try await decrypt(fixture, envelope)
        #expect(status == 200)
        #expect(
            members.members.map(\.name) == [
                "transactionId", "messageId", "authMethod", "merchantIdentifier", "publicKeyHash", "protection",
                "repeated",
                "paymentData", "audit",
            ])
        #expect(members["paymentData"] == (try JSONValue(parsing: plaintext)))
        #expect(members["authMethod"] == .string("CRYPTOGRAM_3DS") && members["repeated"] == .bool(false))
        #expect(members["publicKeyHash"] == .string(keys[0].base64))
        // The newer key is tried first, and both receive the same message.
        #expect(fixture.hsm.tried.current.map(\.publicKeyHash) == [keys[1].bytes, keys[0].bytes])
        #expect(fixture.hsm.tried.current.allSatisfy { $0.scheme == .ecV2 && $0.keyMaterial.count == 65 })
        let line = try #require(
            String(decoding: try await fixture.recorded, as: UTF8.self).split(separator: "\n").last)
        #expect(line.contains("\"event\":\"decrypt\"") && line.contains("\"wallet\":\"google-pay\""))
        #expect(line.contains("\"amount\":\"10.99\",\"currency\":\"EUR\",\"authMethod\":\"CRYPTOGRAM_3DS\""))
        #expect(line.contains("\"triedKeys\":[\"\(keys[1].base64)\",\"\(keys[0].base64)\"]"))
        let logged = String(decoding: try fixture.logged, as: UTF8.self)
        for secret in ["4111111111111111", Self.cryptogram] {
            #expect(!line.contains(secret) && !logged.contains(secret))
        }
    }

    @Test("repeats for the same caller and reference, and refuses every other before the HSM is used")
    func repeats() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(fixture)
        #expect(try await decrypt(fixture, envelope).status == 200)
        let again = try await decrypt(fixture, envelope)
        #expect(again.status == 200 && again.members["repeated"] == .bool(true))
        let calls = fixture.hsm.calls
        for reference in ["order-2", nil] {
            let other = try await decrypt(fixture, envelope, reference: reference)
            #expect(other.status == 409 && other.code == "transaction_replayed")
        }
        #expect(fixture.hsm.calls == calls)
    }

    @Test("waits for the comparison of the ledger while the daemon starts, instead of being refused")
    func opening() async throws {
        let (opening, isOver) = (FirstOpening(), Shared(false))
        let task = opening.start(longest: .seconds(600)) { isOver.current }
        let (fixture, _) = try await fixture(opening: opening)
        let envelope = try message(fixture)
        fixture.record.gate.setPosition(.waiting)
        let released = Begun { try? await decrypt(fixture, envelope).status }
        try await wait(for: "a message that waits") { opening.waitingCount == 1 }
        fixture.record.gate.setPosition(.open)
        #expect(try await released.value() == 200)
        isOver.change { $0 = true }
        await task.value
    }

    @Test("refuses a re-encrypted message with a known messageId as a replay, also with the same reference")
    func reencrypted() async throws {
        let (fixture, _) = try await fixture()
        let plaintext = Self.plaintext(messageId: "one")
        #expect(try await decrypt(fixture, try message(fixture, plaintext)).status == 200)
        #expect(try await decrypt(fixture, try message(fixture, plaintext)).code == "transaction_replayed")
        #expect(try await decrypt(fixture, try message(fixture, Self.plaintext(messageId: "two"))).status == 200)
    }

    @Test("repeats after message and intermediate key have expired, but releases nothing for the first time then")
    func expired() async throws {
        let (fixture, _) = try await fixture()
        let end = Self.now.addingTimeInterval(3_600)
        let released = try message(fixture, Self.plaintext(expiring: end), keyExpiration: end)
        #expect(try await decrypt(fixture, released).status == 200)
        fixture.lead.change { $0 = 7_200 }
        #expect(try await decrypt(fixture, released).members["repeated"] == .bool(true))
        #expect(try await decrypt(fixture, released, reference: "other").code == "transaction_replayed")
        #expect(try await decrypt(fixture, released, reference: nil).code == "certificate_untrusted")
        let new = try message(fixture, Self.plaintext(expiring: end), keyExpiration: end)
        #expect(try await decrypt(fixture, new).code == "certificate_untrusted")
        let late = try message(fixture, Self.plaintext(expiring: end))
        let refused = try await decrypt(fixture, late)
        #expect(refused.status == 422 && refused.code == "message_expired")
        // The refusal has claimed nothing.
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
    }

    @Test("refuses a message that expires later than a lifetime and a window from now")
    func future() async throws {
        let (fixture, _) = try await fixture()
        let late = try message(fixture, Self.plaintext(expiring: Self.now.addingTimeInterval(7 * 86_400 + 600)))
        #expect(try await decrypt(fixture, late).code == "signing_time_outside_window")
    }

    @Test("refuses PAN_ONLY unless the rule permits it, claims nothing, and names the remedy")
    func authMethods() async throws {
        let (fixture, _) = try await fixture()
        let plaintext = Self.plaintext(method: "PAN_ONLY")
        let envelope = try message(fixture, plaintext)
        let refused = try await decrypt(fixture, envelope)
        #expect(refused.status == 422 && refused.code == "auth_method_not_allowed")
        #expect(refused.members["message"]?.stringValue?.contains("allowedAuthMethods: [CRYPTOGRAM_3DS]") == true)
        try fixture.change(rule: Self.rule.replacing("[CRYPTOGRAM_3DS]", with: "[CRYPTOGRAM_3DS, PAN_ONLY]"))
        let expected = ",\"expected\":{\"authMethod\":\"CRYPTOGRAM_3DS\"}"
        #expect(try await decrypt(fixture, envelope, expected).code == "auth_method_not_allowed")
        let released = try await decrypt(fixture, envelope)
        #expect(released.members["authMethod"] == .string("PAN_ONLY"))
        // The refusals claimed nothing.
        #expect(released.members["repeated"] == .bool(false))
    }

    @Test(
        "refuses callers whose rule does not serve Google Pay or this merchant",
        arguments: [
            "", "merchants: [BCR2DN4TEXAMPLE]", rule.replacing("BCR2DN4TEXAMPLE", with: "BCR2"),
            "wallets: [google-pay], google_pay: { merchants: [OTHER] }",
        ])
    func forbidden(rule: String) async throws {
        let (fixture, _) = try await fixture(rule: rule)
        let refused = try await decrypt(fixture, try message(fixture))
        #expect(refused.status == 403 && refused.code == "forbidden")
        #expect(fixture.hsm.calls == 0)
    }

    @Test("serves no Apple Pay under a rule for Google Pay alone")
    func googlePayAlone() async throws {
        let (fixture, _) = try await fixture(
            rule: "wallets: [google-pay], google_pay: { merchants: [BCR2DN4TEXAMPLE] }")
        let apple = String(decoding: try fixture.mint().paymentToken, as: UTF8.self)
        let answer = try await fixture.post("/v1/decrypt", Array("{\"token\":\(apple)}".utf8))
        #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string("forbidden"))
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
    }

    @Test("refuses a forged message, and one for another merchant, before a key is used")
    func forged() async throws {
        let (fixture, _) = try await fixture()
        let other = try message(fixture, merchant: "BCR3")
        #expect(try await decrypt(fixture, other).code == "signature_invalid")
        var changed = try message(fixture)
        changed.signedMessage += " "
        #expect(try await decrypt(fixture, changed).code == "signature_invalid")
        #expect(fixture.hsm.calls == 0)
    }

    @Test("refuses with decryption_failed if no key fits, and with 503 if a key could not be tried")
    func keys() async throws {
        let (fixture, keys) = try await fixture(keys: [(2, .active), (1, .active)])
        fixture.hsm.onlyKey.change { $0 = [] }
        #expect(try await decrypt(fixture, try message(fixture)).code == "decryption_failed")
        fixture.hsm.failures.change { $0 = [keys[1].bytes: WorkerFailure(.hsmTokenUnavailable, "gone")] }
        let unavailable = try await decrypt(fixture, try message(fixture))
        #expect(unavailable.status == 503 && unavailable.code == "hsm_unavailable")
        // The other key opens it although the first one could not be tried.
        fixture.hsm.onlyKey.change { $0 = keys[0].bytes }
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
    }

    @Test(
        "tries no key that must not decrypt",
        arguments: [KeyState.suspended, .compromised, .destroyed, .deactivated, .preActivation])
    func states(state: KeyState) async throws {
        let (fixture, _) = try await fixture(keys: [(1, state)])
        #expect(try await decrypt(fixture, try message(fixture)).code == "key_not_active")
        #expect(fixture.hsm.calls == 0)
    }

    @Test("says that a merchant has no Google Pay key here")
    func noKey() async throws {
        let (fixture, _) = try await fixture(keys: [])
        #expect(try await decrypt(fixture, try message(fixture)).code == "unknown_public_key_hash")
    }

    @Test(
        "refuses a malformed plaintext, and claims nothing",
        arguments: [
            "{}", "x", "{\"messageExpiration\":1}", "{\"messageExpiration\":\"1\",\"messageExpiration\":\"1\"}",
        ])
    func malformed(text: String) async throws {
        let (fixture, _) = try await fixture()
        let refused = try await decrypt(fixture, try message(fixture, Array(text.utf8)))
        #expect(refused.status == 400 && refused.code == "malformed_token")
    }

    @Test(
        "refuses a malformed request",
        arguments: [
            ",\"amount\":\"1\"", ",\"more\":1", ",\"expected\":{\"amount\":1}", ",\"expected\":{\"authMethod\":1}",
            ",\"expected\":[]", ",\"expected\":{\"authMethod\":\"PAN\"}", ",\"attempt\":\"1\"", ",\"after\":[]",
        ])
    func malformedRequest(more: String) async throws {
        let (fixture, _) = try await fixture()
        let refused = try await decrypt(fixture, try message(fixture), more)
        #expect(refused.status == 400 && refused.code == "malformed_request", "\(refused)")
    }
}
