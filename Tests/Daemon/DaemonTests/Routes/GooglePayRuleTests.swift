import Foundation
import KeyTypes
import MerchantKeys
import PaymentToken
import StrictJSON
import TestSupport
import Testing

@testable import Daemon

/// Rules that both wallets share, for Google Pay messages.
extension GooglePayDecryptionTests {
    @Test("repeats for an attempt that names the last one, and refuses any other before the HSM is used")
    func attempts() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(fixture)
        func decrypt(
            _ attempt: Int, after: [Int] = []
        ) async throws -> (status: Int, code: String?, members: JSONObject) {
            let names = after.map { "\"\(Self.attempt($0))\"" }.joined(separator: ",")
            return try await self.decrypt(
                fixture, envelope,
                ",\"attempt\":\"\(Self.attempt(attempt))\"" + (after.isEmpty ? "" : ",\"after\":[\(names)]"))
        }
        #expect(try await decrypt(1).members["repeated"] == .bool(false))
        let calls = fixture.hsm.calls
        #expect(try await decrypt(2).code == "transaction_replayed")
        #expect(try await decrypt(2, after: [3]).code == "transaction_replayed")
        #expect(fixture.hsm.calls == calls)
        #expect(try await decrypt(2, after: [1]).members["repeated"] == .bool(true))
        // The last release is now by attempt 2.
        #expect(try await decrypt(3, after: [1]).code == "transaction_replayed")
        #expect(try await decrypt(3, after: [1, 2]).members["repeated"] == .bool(true))
    }

    private static func attempt(_ number: Int) -> String { "000000000000000\(number)" }

    @Test("counts repeats that the rule's auth_methods no longer permit against the hundred, and then calls no HSM")
    func refusedRepeats() async throws {
        let both = Self.rule.replacing("[CRYPTOGRAM_3DS]", with: "[CRYPTOGRAM_3DS, PAN_ONLY]")
        let (fixture, _) = try await fixture(rule: both)
        let envelope = try message(fixture, Self.plaintext(method: "PAN_ONLY"))
        #expect(try await decrypt(fixture, envelope).members["repeated"] == .bool(false))
        try fixture.change(rule: Self.rule)
        for number in 1...100 {
            #expect(try await decrypt(fixture, envelope).code == "auth_method_not_allowed", "\(number)")
        }
        let calls = fixture.hsm.calls
        #expect(calls == 101)
        #expect(try await decrypt(fixture, envelope).code == "transaction_replayed")
        // The hundred are used up for a rule that permits the message, too.
        try fixture.change(rule: both)
        #expect(try await decrypt(fixture, envelope).code == "transaction_replayed")
        #expect(fixture.hsm.calls == calls)
    }

    @Test("decrypts a message a hundred times for a rule that forbids its kind of card number, and then no more")
    func refusedAuthMethod() async throws {
        let (fixture, _) = try await fixture()
        let plaintext = Self.plaintext(method: "PAN_ONLY")
        let envelope = try message(fixture, plaintext)
        for number in 1...100 {
            // Without a reference, too, no try is free.
            let refused = try await decrypt(fixture, envelope, reference: number % 2 == 0 ? "order-\(number)" : nil)
            #expect(refused.code == "auth_method_not_allowed", "\(number)")
        }
        #expect(fixture.hsm.calls == 100)
        for _ in 1...2 {
            let refused = try await decrypt(fixture, envelope)
            #expect(refused.status == 422 && refused.code == "auth_method_not_allowed")
            #expect(refused.members["message"]?.stringValue?.contains("refused it 100 times for this reason") == true)
        }
        #expect(fixture.hsm.calls == 100)
        let lines = String(decoding: try await fixture.recorded, as: UTF8.self).split(separator: "\n")
        #expect(lines.last?.contains(#""outcome":"auth_method_not_allowed""#) == true)
        #expect(lines.last?.contains(#""authMethod":"PAN_ONLY""#) == true)
        #expect(lines.last?.contains("triedKeys") == false)
        // Another message, and this one for a rule that permits its kind, are opened.
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
        try fixture.change(rule: Self.rule.replacing("[CRYPTOGRAM_3DS]", with: "[CRYPTOGRAM_3DS, PAN_ONLY]"))
        fixture.hsm.opens(to: plaintext)
        #expect(try await decrypt(fixture, envelope).members["repeated"] == .bool(false))
    }

    @Test("counts the refusals of a message that has expired, too")
    func refusedExpired() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(
            fixture, Self.plaintext(expiring: Date(timeIntervalSince1970: 1_000_000_000), method: "PAN_ONLY"))
        for number in 1...101 {
            #expect(try await decrypt(fixture, envelope).code == "auth_method_not_allowed", "\(number)")
        }
        #expect(fixture.hsm.calls == 100)
    }

    @Test("counts the refusals by expected.authMethod, and opens the message for a request that expects its kind")
    func unexpectedAuthMethod() async throws {
        let (fixture, _) = try await fixture(
            rule: Self.rule.replacing("[CRYPTOGRAM_3DS]", with: "[CRYPTOGRAM_3DS, PAN_ONLY]"))
        let envelope = try message(fixture, Self.plaintext(method: "PAN_ONLY"))
        let expected = ",\"expected\":{\"authMethod\":\"CRYPTOGRAM_3DS\"}"
        for number in 1...101 {
            #expect(try await decrypt(fixture, envelope, expected).code == "auth_method_not_allowed", "\(number)")
        }
        #expect(fixture.hsm.calls == 100)
        #expect(
            try await decrypt(fixture, envelope, ",\"expected\":{\"authMethod\":\"PAN_ONLY\"}").status == 200)
    }

    @Test("decrypts an expired message once, and then gives the same answer without the HSM")
    func expiredAgain() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(fixture, Self.plaintext(expiring: Self.now.addingTimeInterval(3_600)))
        fixture.lead.change { $0 = 7_200 }
        let first = try await decrypt(fixture, envelope)
        #expect(first.status == 422 && first.code == "message_expired")
        for reference in ["order-1", "order-2", nil] {
            let again = try await decrypt(fixture, envelope, reference: reference)
            #expect(again.status == 422 && again.code == "message_expired")
            for member in ["message", "details"] { #expect(again.members[member] == first.members[member]) }
        }
        #expect(fixture.hsm.calls == 1)
        let lines = String(decoding: try await fixture.recorded, as: UTF8.self).split(separator: "\n")
        #expect(lines.last?.contains(#""outcome":"message_expired""#) == true)
        #expect(lines.last?.contains(#""authMethod":"CRYPTOGRAM_3DS""#) == true)
        #expect(lines.last?.contains("triedKeys") == false)
        // Another message is opened.
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
        #expect(fixture.hsm.calls == 2)
    }

    @Test("releases a message that only a fast clock refused as expired, and repeats it after its expiration")
    func expiredByFastClock() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(fixture, Self.plaintext(expiring: Self.now.addingTimeInterval(3_600)))
        fixture.lead.change { $0 = 7_200 }
        #expect(try await decrypt(fixture, envelope).code == "message_expired")
        fixture.lead.change { $0 = 0 }
        #expect(try await decrypt(fixture, envelope).members["repeated"] == .bool(false))
        fixture.lead.change { $0 = 7_200 }
        #expect(try await decrypt(fixture, envelope).members["repeated"] == .bool(true))
        #expect(try await decrypt(fixture, envelope, reference: "other").code == "transaction_replayed")
    }

    @Test("decrypts a message from the future once, and again when its time has come")
    func futureAgain() async throws {
        let (fixture, _) = try await fixture()
        let envelope = try message(fixture)
        fixture.lead.change { $0 = -86_400 }
        for _ in 1...3 { #expect(try await decrypt(fixture, envelope).code == "signing_time_outside_window") }
        #expect(fixture.hsm.calls == 1)
        fixture.lead.change { $0 = 0 }
        #expect(try await decrypt(fixture, envelope).status == 200)
    }

    @Test("answers for an expired message that it remembers in the order of the checks")
    func expiredOrder() async throws {
        let (fixture, keys) = try await fixture()
        let envelope = try message(fixture, Self.plaintext(expiring: Self.now.addingTimeInterval(3_600)))
        fixture.lead.change { $0 = 7_200 }
        #expect(try await decrypt(fixture, envelope).code == "message_expired")
        // The kind of card number comes before the times.
        let expected = ",\"expected\":{\"authMethod\":\"PAN_ONLY\"}"
        let unexpected = try await decrypt(fixture, envelope, expected)
        #expect(unexpected.code == "auth_method_not_allowed")
        #expect(unexpected.members["message"]?.stringValue?.contains("100 times") == false)
        try fixture.change(rule: Self.rule.replacing("[CRYPTOGRAM_3DS]", with: "[PAN_ONLY]"))
        #expect(try await decrypt(fixture, envelope).code == "auth_method_not_allowed")
        // The state of the keys comes before what only a decryption shows.
        let suspended = KeyRecord(
            publicKeyHash: keys[0], merchantIdentifier: Self.merchant, algorithm: .ec, use: .googlePay,
            state: .suspended, createdAt: Self.now, origin: .generated)
        fixture.index.update(keys[0], hsmTokens: [], keyRecord: suspended)
        #expect(try await decrypt(fixture, envelope).code == "key_not_active")
        try fixture.change(rule: Self.rule.replacing(Self.merchant, with: "OTHER"))
        #expect(try await decrypt(fixture, envelope).code == "forbidden")
        #expect(fixture.hsm.calls == 1)
    }

    @Test("tries the four newest keys, and no fifth one")
    func fifthKey() async throws {
        let (fixture, keys) = try await fixture(
            keys: [(4, .active), (1, .active), (3, .active), (2, .active), (5, .deactivated)], cutOff: 1)
        fixture.hsm.onlyKey.change { $0 = keys[4].bytes }
        #expect(try await decrypt(fixture, try message(fixture)).code == "decryption_failed")
        #expect(fixture.hsm.tried.current.map(\.publicKeyHash) == [1, 3, 2, 0].map { keys[$0].bytes })
    }

    @Test("tries a retired key last, and only before its cut-off")
    func retiredKey() async throws {
        let (fixture, keys) = try await fixture(keys: [(1, .deactivated), (9, .active)], cutOff: 1)
        fixture.hsm.onlyKey.change { $0 = keys[0].bytes }
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
        #expect(fixture.hsm.tried.current.map(\.publicKeyHash) == [keys[1].bytes, keys[0].bytes])
        fixture.lead.change { $0 = 86_401 }
        #expect(try await decrypt(fixture, try message(fixture)).code == "decryption_failed")
        #expect(fixture.hsm.tried.current.last?.publicKeyHash == keys[1].bytes)
    }

    @Test("opens no payment token of Apple Pay that names a Google Pay key, and calls no HSM")
    func appleTokenForGoogleKey() async throws {
        let (fixture, keys) = try await fixture()
        let apple = String(decoding: try fixture.mint().paymentToken, as: UTF8.self)
        let own = PublicKeyHash.of(subjectPublicKeyInfo: fixture.merchant.key.subjectPublicKeyInfo).base64
        #expect(apple.contains(own))
        // Apple's signature does not cover the hash.
        let answer = try await fixture.post(
            "/v1/decrypt", Array("{\"token\":\(apple.replacing(own, with: keys[0].base64))}".utf8))
        #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string("key_not_active"))
        #expect(fixture.hsm.calls == 0)
    }

    @Test("with a clock six days fast, releases messages and refuses payment tokens of Apple Pay")
    func fastClock() async throws {
        let (fixture, _) = try await fixture()
        let apple = String(decoding: try fixture.mint().paymentToken, as: UTF8.self)
        fixture.lead.change { $0 = 6 * 86_400 }
        let refused = try await fixture.post("/v1/decrypt", Array("{\"token\":\(apple)}".utf8))
        #expect(try JSONValue(parsing: refused.body).objectValue?["code"] == .string("signing_time_outside_window"))
        #expect(try await decrypt(fixture, try message(fixture)).status == 200)
    }

    @Test("with a clock six days slow, releases a message that is six days old, once, and no newer one")
    func slowClock() async throws {
        let (fixture, _) = try await fixture()
        fixture.lead.change { $0 = -6 * 86_400 }
        #expect(try await decrypt(fixture, try message(fixture)).code == "signing_time_outside_window")
        let old = try message(fixture, Self.plaintext(expiring: Self.now.addingTimeInterval(86_400)))
        #expect(try await decrypt(fixture, old).status == 200)
        fixture.lead.change { $0 = 0 }
        #expect(try await decrypt(fixture, old, reference: "order-2").code == "transaction_replayed")
        #expect(try await decrypt(fixture, old, reference: nil).code == "transaction_replayed")
    }
}
