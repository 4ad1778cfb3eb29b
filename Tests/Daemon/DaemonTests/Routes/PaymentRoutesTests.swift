import AuditChain
import Foundation
import MerchantKeys
import PaymentToken
import StrictJSON
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

@testable import Daemon
@testable import UsageRecording

@Suite("Decrypt and verify, without a worker")
struct PaymentRoutesTests {
    @Test("refuses a caller whose rule excludes the merchant before the key is used, and claims nothing")
    func merchantGuard() async throws {
        let fixture = try await PaymentRoutesFixture(rule: "merchants: [\"merchant.com.other.*\"]")
        let paymentToken = try fixture.mint()
        let refused = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r"))
        #expect(refused.status == 403)
        #expect(try JSONValue(parsing: refused.body).objectValue?["code"] == .string("forbidden"))
        #expect(fixture.hsm.calls == 0)
        let entry = try #require(try await fixture.record.entries.last)
        #expect(entry.event == "decrypt" && entry.outcome == "forbidden")
        #expect(entry.merchant == fixture.merchant.merchant.identifier)

        try fixture.change(rule: "merchants: [\"\(fixture.merchant.merchant.identifier)\"]")
        let released = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "other"))
        #expect(released.status == 200)
        #expect(fixture.hsm.calls == 1)
    }

    @Test(
        "refuses a request for merchants other than the payment token's before the key is used, and claims nothing")
    func merchantsOfTheRequest() async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        let identifier = fixture.merchant.merchant.identifier
        let other = paymentToken.decryptBody(reference: "r", merchants: ["merchant.com.other.*", identifier + "x"])
        let refused = try await fixture.post("/v1/decrypt", other)
        #expect(refused.status == 403)
        let members = try JSONValue(parsing: refused.body).objectValue
        #expect(members?["code"] == .string("forbidden") && members?["details"] == .string("merchants"))
        #expect(fixture.hsm.calls == 0)
        #expect(try await fixture.record.entries.last?.outcome == "forbidden")

        // The refused request has claimed nothing, so a request with another reference succeeds.
        let own = paymentToken.decryptBody(reference: "other", merchants: ["merchant.com.other.*", identifier])
        #expect(try await fixture.post("/v1/decrypt", own).status == 200)
    }

    @Test("does not let the merchants of a request grant more than the access rule does")
    func requestedMerchantsGrantNothing() async throws {
        let fixture = try await PaymentRoutesFixture(rule: "merchants: [\"merchant.com.other.*\"]")
        let refused = try await fixture.post("/v1/decrypt", try fixture.mint().decryptBody(merchants: ["*"]))
        #expect(refused.status == 403 && fixture.hsm.calls == 0)
    }

    @Test(
        "uses no key while the ledger is not compared or is held, since nothing is released then",
        arguments: [LedgerGate.Position.waiting, .held(.lost(remembered: nil, keyId: nil))])
    func gate(position: LedgerGate.Position) async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        fixture.record.gate.setPosition(position)
        let refused = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r"))
        #expect(refused.status == 503)
        #expect(try JSONValue(parsing: refused.body).objectValue?["code"] == .string("ledger_unavailable"))
        #expect(fixture.hsm.calls == 0)

        fixture.record.gate.setPosition(.open)
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r")).status == 200)
    }

    @Test("refuses a key without a tier as unavailable, and reports what the HSM token lacks")
    func missingTier() async throws {
        let fixture = try await PaymentRoutesFixture(inconsistency: "The HSM token cannot serve EC_v1.")
        let paymentToken = try fixture.mint()
        let lack = "token primary: EC_v1: the HSM token lacks CKM_ECDH1_DERIVE"
        fixture.hsm.lacks(lack)
        let refused = try await fixture.post("/v1/decrypt", paymentToken.decryptBody())
        let members = try #require(try JSONValue(parsing: refused.body).objectValue)
        #expect(refused.status == 503 && members["code"] == .string("hsm_unavailable"))
        #expect(members["details"] == .string(lack))
        // Here the HSM token lacks no mechanism, but the key itself cannot be used.
        fixture.hsm.lacks(nil)
        let inactive = try await fixture.post("/v1/decrypt", paymentToken.decryptBody())
        #expect(inactive.status == 422)
        #expect(try JSONValue(parsing: inactive.body).objectValue?["code"] == .string("key_not_active"))
        #expect(fixture.hsm.calls == 0)
    }

    @Test(
        "refuses dry_run and other parameters in decrypt and verify",
        arguments: ["/v1/decrypt", "/v1/verify", "/v1/google-pay/verify"],
        [["dry_run": "true"], ["dry_run": "false"], ["dry_run": ""], ["dryrun": "true"], ["at": "now"]])
    func noDryRun(path: String, query: [String: String]) async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        let body = path.hasSuffix("/verify") ? paymentToken.verifyBody() : paymentToken.decryptBody()
        let answer = try await fixture.post(path, body, query: query)
        #expect(answer.status == 400)
        #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string("malformed_request"))
        #expect(fixture.hsm.calls == 0)
        #expect(try await fixture.record.entries.last?.outcome == "malformed_request")
        // The refused requests have claimed nothing. Otherwise this request without a reference would be a replay.
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 200)
    }

    @Test(
        "refuses a payment token for a key that does not decrypt before it calls the HSM",
        arguments: [KeyState.preActivation, .suspended, .compromised, .destroyed])
    func inactiveKey(state: KeyState) async throws {
        let fixture = try await PaymentRoutesFixture(state: state)
        let refused = try await fixture.post("/v1/decrypt", try fixture.mint().decryptBody())
        #expect(refused.status == 422)
        #expect(try JSONValue(parsing: refused.body).objectValue?["code"] == .string("key_not_active"))
        #expect(fixture.hsm.calls == 0)
    }

    @Test("applies a retired key's cut-off by the newest time in the ledger if the clock is earlier")
    func cutOffByLedger() async throws {
        let fixture = try await PaymentRoutesFixture(state: .deactivated, cutOff: Date(timeIntervalSinceNow: 3600))
        #expect(try await fixture.post("/v1/decrypt", fixture.mint().decryptBody()).status == 200)
        try await fixture.record.append(at: Date(timeIntervalSinceNow: 7200))
        let refused = try await fixture.post("/v1/decrypt", fixture.mint().decryptBody())
        #expect(String(decoding: refused.body, as: UTF8.self).contains("key_not_active"))
        #expect(fixture.hsm.calls == 1)
    }

    @Test("records an unavailable HSM as not reached only if no worker had the call")
    func unreachedHSM() async throws {
        let fixture = try await PaymentRoutesFixture()
        for isUnsent in [true, false] {
            fixture.hsm.fails(WorkerFailure(.hsmTokenUnavailable, "gone", isUnsent: isUnsent))
            #expect(try await fixture.post("/v1/decrypt", fixture.mint().decryptBody()).status == 503)
        }
        let lines = try await fixture.recorded.split(separator: 0x0A).map { try AuditEntry(line: Array($0)) }
            .filter { $0.outcome == "hsm_unavailable" }
        #expect(lines.map(\.leavesUseOpen) == [false, true])
    }

    @Test("counts no replay as a refused arrival, whether its claim is present or forgotten")
    func replaysAreNoArrivals() async throws {
        let fixture = try await PaymentRoutesFixture()
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: fixture.merchant.key.subjectPublicKeyInfo)
        let paymentToken = try fixture.mint()
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 200)
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 409)
        #expect(fixture.arrivals.lastHour(hash, now: Date()) == 0)
        try fixture.forgetClaims(before: Date(timeIntervalSinceNow: 86_400))
        let forgotten = try await fixture.post("/v1/decrypt", fixture.mint().decryptBody())
        #expect(try JSONValue(parsing: forgotten.body).objectValue?["code"] == .string("transaction_replayed"))
        #expect(fixture.arrivals.lastHour(hash, now: Date()) == 0)
        // A request that is decrypted and then refused counts as a repeat too.
        let other = try fixture.mint().decryptBody(expected: #"{"currencyCode":"978"}"#)
        #expect(try await fixture.post("/v1/decrypt", other).status == 422)
        #expect(fixture.arrivals.lastHour(hash, now: Date()) == 1)
    }

    @Test("counts a refusal for its key once Apple's signature is verified, and for none if the key is unknown")
    func keyFailures() async throws {
        let fixture = try await PaymentRoutesFixture()
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: fixture.merchant.key.subjectPublicKeyInfo).hex
        func series() -> [Substring] {
            fixture.instruments.exposition().split(separator: "\n")
                .filter { $0.hasPrefix("paytokend_key_failures_total{") }
        }
        for deviation in [Deviation.truncatedSignature, .twoSigners] {
            let forged = try SharedForge.mint.mint(
                TokenRecipe(merchant: fixture.merchant.merchant, deviations: [deviation]))
            #expect(try await fixture.post("/v1/decrypt", forged.decryptBody()).status == 422)
        }
        let unknown = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.rsaMerchant.merchant))
        let refused = try await fixture.post("/v1/decrypt", unknown.decryptBody())
        #expect(try JSONValue(parsing: refused.body).objectValue?["code"] == .string("unknown_public_key_hash"))
        #expect(try await fixture.post("/v1/decrypt", fixture.mint().decryptBody()).status == 200)
        #expect(series().isEmpty)

        let paymentToken = try fixture.mint()
        fixture.hsm.opens(to: [0x5B])
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 422)
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody()).status == 422)
        #expect(series() == ["paytokend_key_failures_total{public_key_hash=\"\(hash)\",code=\"decryption_failed\"} 2"])
    }

    @Test("counts no refusal for a key when the ledger or the HSM was too late for the release")
    func faultsAreNoKeyFailures() async throws {
        let fixture = try await PaymentRoutesFixture(answerTime: .zero)
        #expect(try await fixture.post("/v1/decrypt", fixture.mint().decryptBody()).status == 503)
        #expect(!fixture.instruments.exposition().contains("paytokend_key_failures_total{"))
    }

    @Test(
        "does not send an answer too late after its commit, and gives it to a repeat with the same reference")
    func lateAnswer() async throws {
        // Every commit takes longer than this answer time of zero.
        let fixture = try await PaymentRoutesFixture(answerTime: .zero)
        let paymentToken = try fixture.mint()
        let late = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r"))
        let refusal = try JSONValue(parsing: late.body).objectValue
        #expect(late.status == 503 && refusal?["code"] == .string("ledger_unavailable"))
        #expect(refusal?["message"]?.stringValue?.contains("repeat with the same reference") == true)
        #expect(refusal?["paymentData"] == nil)
        // The release is recorded. A request with another reference is a replay, and does not receive the payment.
        #expect(try await fixture.record.entries.last?.outcome == "ok")
        let other = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "other"))
        #expect(try JSONValue(parsing: other.body).objectValue?["code"] == .string("transaction_replayed"))
    }

    @Test(
        "treats an attempt that names the last one as a repeat, and refuses any other as a replay without payment data"
    )
    func repeatedAttempts() async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        func post(
            _ attempt: String, after: [String]? = nil, expected: String? = nil
        ) async throws -> (code: String?, message: String?, members: JSONObject) {
            let body = paymentToken.decryptBody(expected: expected, reference: "r", attempt: attempt, after: after)
            let answer = try await fixture.post("/v1/decrypt", body)
            let members = try #require(try JSONValue(parsing: answer.body).objectValue)
            #expect((answer.status == 200) == (members["paymentData"] != nil))
            return (members["code"]?.stringValue, members["message"]?.stringValue, members)
        }
        let names = (1...7).map { "00000000000000a\($0)" }
        #expect(try await post(names[0]).members["repeated"] == .bool(false))
        let forgotten = try await post(names[1])
        #expect(forgotten.code == "transaction_replayed")
        #expect(forgotten.message?.contains("by an attempt that this request does not name") == true)
        #expect(try await fixture.record.entries.last?.outcome == "transaction_replayed")
        // This attempt decrypts the payment token, but the daemon refuses the payment because of the expectation. The
        // attempt releases nothing, so the first attempt remains the one with the last release.
        let other = try await post(names[2], after: [names[0]], expected: #"{"transactionAmount":1}"#)
        #expect(other.code == "amount_mismatch")
        #expect(try await post(names[3], after: [names[1], names[2]]).code == "transaction_replayed")
        #expect(try await post(names[4], after: [names[2], names[0]]).members["repeated"] == .bool(true))
        #expect(try await fixture.record.entries.last?.outcome == "repeat")
        #expect(try await post(names[5], after: [names[0]]).code == "transaction_replayed")
        #expect(try await post(names[6], after: names.dropLast()).members["repeated"] == .bool(true))
        let hash = PublicKeyHash.of(subjectPublicKeyInfo: fixture.merchant.key.subjectPublicKeyInfo)
        #expect(fixture.arrivals.lastHour(hash, now: Date()) == 1, "the wrong amount; replays are none")
    }

    @Test("logs a line for each keyless refusal, and shares lines beyond the recording rate")
    func sharedLines() async throws {
        let fixture = try await PaymentRoutesFixture()
        let more = 30
        for _ in 0..<RefusalTally.maximumRecorded + more {
            #expect(try await fixture.post("/v1/verify", Array("{}".utf8)).status == 400)
        }
        let lines = String(decoding: try fixture.logged, as: UTF8.self).split(separator: "\n")
            .count { $0.contains("malformed_request") }
        // Refusals beyond the recording rate share one line in ten seconds. A slow machine may log several such lines.
        #expect((1..<more).contains(lines - RefusalTally.maximumRecorded), "\(lines)")
    }

    @Test("logs a release as one line with exactly these members")
    func logLine() async throws {
        let fixture = try await PaymentRoutesFixture()
        let paymentToken = try fixture.mint()
        #expect(try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r")).status == 200)
        let repeated = try await fixture.post("/v1/decrypt", paymentToken.decryptBody(reference: "r"))
        #expect(repeated.status == 200)
        let lines = try fixture.logged.split(separator: 0x0A).map { line in
            try #require(try JSONValue(parsing: Array(line)).objectValue)
        }
        #expect(lines.count == 2)
        for (line, outcome) in zip(lines, ["ok", "repeat"]) {
            var members = Dictionary(uniqueKeysWithValues: line.members.map { ($0.name, $0.value) })
            #expect(members.removeValue(forKey: "time")?.stringValue?.count == 24)
            #expect(members.removeValue(forKey: "peer.pid") != nil)
            #expect(
                members == [
                    "level": .string("info"), "logger": .string("paytokend"), "message": .string("answered"),
                    "caller": .string("shop"), "peer.uid": .string("\(fixture.peer.uid)"),
                    "request.endpoint": .string("/v1/decrypt"), "request.outcome": .string(outcome),
                    "transaction.id": .string(paymentToken.transactionIdentifier),
                    "key.hash": .string(paymentToken.publicKeyHash.hexadecimal),
                    "merchant": .string(fixture.merchant.merchant.identifier), "protection": .string("C"),
                ])
        }
    }

    /// Refusals before and after the payment token is decrypted, each with the request's expectation, the access rule
    /// and the code.
    private static let refusals: [(expected: String?, rule: String, code: String)] = [
        (#"{"currencyCode":"978"}"#, "", "currency_mismatch"),
        (#"{"transactionAmount":1}"#, "", "amount_mismatch"),
        (#"{"currencyCode":"840","transactionAmount":1099.5}"#, "", "amount_mismatch"),
        (#"{"applicationData":"Ag=="}"#, "", "application_data_mismatch"),
        (#"{"applicationData":null}"#, "", "application_data_mismatch"),
        (#"{"merchantIdentifier":"merchant.com.other"}"#, "", "merchant_mismatch"),
        (nil, "require_expected: [currencyCode]", "malformed_request"),
        (nil, "merchants: [merchant.com.other]", "forbidden"),
    ]

    @Test("refuses a request without a required expectation before any key is used, and names each missing member")
    func lacksExpected() async throws {
        let fixture = try await PaymentRoutesFixture(
            rule: "require_expected: [transactionAmount, currencyCode, merchantIdentifier]")
        let paymentToken = try fixture.mint()
        for (expected, details) in [
            (nil, "expected.currencyCode, expected.merchantIdentifier, expected.transactionAmount missing"),
            (#"{"currencyCode":"840","transactionAmount":1099}"#, "expected.merchantIdentifier missing"),
            // The missing member is reported before the stated members are compared with the payment.
            (#"{"currencyCode":"978","transactionAmount":1}"#, "expected.merchantIdentifier missing"),
        ] as [(String?, String)] {
            let answer = try await fixture.post(
                "/v1/decrypt", paymentToken.decryptBody(expected: expected, reference: "r"))
            let members = try JSONValue(parsing: answer.body).objectValue
            #expect(answer.status == 400 && members?["code"] == .string("malformed_request"))
            #expect(members?["details"]?.stringValue?.hasPrefix(details) == true)
        }
        #expect(fixture.hsm.calls == 0)
    }

    @Test("keeps the payment out of each refusal's answer, log, record and metrics")
    func refusalsAreSilent() async throws {
        for (expected, rule, code) in Self.refusals {
            let fixture = try await PaymentRoutesFixture(rule: rule)
            for kind in PayloadRecipe.Kind.allCases {
                var payload = PayloadRecipe(kind)
                payload.accountNumber = "4" + String((0..<15).map { _ in "0123456789".randomElement() ?? "0" })
                payload.cardholderName = "Secretive Cardholder"
                let paymentToken = try fixture.mint(payload, applicationData: [1])
                let answer = try await fixture.post(
                    "/v1/decrypt", paymentToken.decryptBody(expected: expected, reference: "r"))
                #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string(code))
                try await Self.expectSilence(fixture, answer.body, payload, code)
            }
        }
    }

    @Test("refuses a payload without an expected member, or not JSON, and repeats no part of it")
    func unreadablePayloads() async throws {
        let fixture = try await PaymentRoutesFixture()
        let payload = PayloadRecipe()
        let whole = String(decoding: payload.json, as: UTF8.self)
        for (plaintext, expected, code) in [
            (whole.replacing("\"currencyCode\":\"840\",", with: ""), #"{"currencyCode":"840"}"#, "currency_mismatch"),
            (whole.replacing("\"840\"", with: "840"), #"{"currencyCode":"840"}"#, "currency_mismatch"),
            (
                whole.replacing("\"transactionAmount\":1099,", with: ""), #"{"transactionAmount":1099}"#,
                "amount_mismatch"
            ),
            (whole.replacing("1099", with: "\"1099\""), #"{"transactionAmount":1099}"#, "amount_mismatch"),
            (whole + "x", "{}", "decryption_failed"), ("[\(whole)]", "{}", "decryption_failed"),
            (String(whole.dropLast()), "{}", "decryption_failed"),
        ] {
            let paymentToken = try fixture.mint(payload)
            fixture.hsm.opens(to: Array(plaintext.utf8))
            let answer = try await fixture.post(
                "/v1/decrypt", paymentToken.decryptBody(expected: expected, reference: "r"))
            #expect(try JSONValue(parsing: answer.body).objectValue?["code"] == .string(code), "\(expected)")
            try await Self.expectSilence(fixture, answer.body, payload, code)
        }
    }

    private static func expectSilence(
        _ fixture: PaymentRoutesFixture, _ answer: [UInt8], _ payload: PayloadRecipe, _ code: String
    ) async throws {
        let places = [
            ("the answer", answer), ("the log", try fixture.logged), ("the record", try await fixture.recorded),
            ("the metrics", Array(fixture.instruments.exposition().utf8)),
        ]
        var secrets = payload.secrets.map { Array($0.utf8) } + [payload.cryptogram]
        if let name = payload.cardholderName { secrets.append(Array(name.utf8)) }
        for (place, text) in places {
            #expect(!text.isEmpty)
            // Only a Boolean is passed to the expectation, so that a failure prints no secret.
            let isSilent = secrets.allSatisfy { !SecretEncodings.isFound($0, in: text) }
            #expect(isSilent, "\(code): \(place)")
        }
    }
}
