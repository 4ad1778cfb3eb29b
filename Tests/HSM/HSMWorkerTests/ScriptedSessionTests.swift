import Crypto
import Foundation
import KeyTypes
import TestSupport
import Testing
import TokenForge
import WorkerProtocol

/// Sessions of the real worker process on unreliable HSM tokens, which the scripted module in front of SoftHSM
/// simulates.
@Suite struct ScriptedSessionTests {
    /// The return values CKR_SESSION_COUNT and CKR_DEVICE_MEMORY.
    private static let (sessionCount, deviceMemory): (UInt, UInt) = (0xB1, 0x31)

    private func serving(
        _ hsmToken: ScriptedToken, sessions: UInt16 = 1, callTimeout: UInt32 = 10_000
    ) async throws -> WorkerUnderTest {
        try await .withMerchantKeys(hsmToken, sessions: sessions) { $0.callTimeout = callTimeout }
    }

    private func opened(_ hsmToken: ScriptedToken) -> Int { hsmToken.calls("C_OpenSession").count { $0.value == 0 } }

    // MARK: Too few sessions

    @Test("serves with as many sessions as the HSM token allows, reports their number, and opens the others later")
    func sessionLimit() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "session-limit 3")
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken, sessions: 4)
        // One of the three allowed sessions holds the login.
        #expect(description.sessions == 2)
        try await worker.mustImport(SharedForge.ecMerchant, description)
        let first = try EncryptedPayment.ec()
        #expect(try await worker.call(first.request) == .plaintext(first.plaintext, tier: .c))
        #expect(opened(hsmToken) == 3)
        try hsmToken.play()
        try await wait(for: "the other two sessions") { opened(hsmToken) == 5 }
        for _ in 0..<8 {
            let payment = try EncryptedPayment.ec()
            #expect(try await worker.call(payment.request) == .plaintext(payment.plaintext, tier: .c))
        }
        #expect(opened(hsmToken) == 5)
    }

    @Test(
        "retries until the deadline if the HSM token allows only the login session, and then reports its return value"
    )
    func noRoom() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "session-limit 1")
        let worker = try WorkerUnderTest(hsmToken)
        let failure = await #expect(throws: WorkerFailure.self) {
            try await worker.open(hsmToken, sessions: 4) { $0.callTimeout = 400 }
        }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(failure?.message.contains("CKR_SESSION_COUNT for session 1 of 4") == true, "\(failure?.message ?? "")")
        #expect(hsmToken.calls("C_OpenSession").count { $0.value == Self.sessionCount } > 1)
    }

    @Test("waits at its start, within the deadline, for an HSM token without a free session")
    func roomComes() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory(), "fault C_OpenSession always return=0xB1")
        let worker = try WorkerUnderTest(hsmToken)
        async let description = worker.open(hsmToken, sessions: 2) { $0.callTimeout = 60_000 }
        try await wait(for: "two refusals") { hsmToken.calls("C_OpenSession").count >= 2 }
        try hsmToken.play()
        #expect(try await description.sessions == 2)
    }

    @Test("waits while the HSM token is busy, and then decrypts the transaction", arguments: [0x31, 0xB1, 0x2])
    func throttled(_ code: UInt) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, callTimeout: 60_000)
        let payment = try EncryptedPayment.ec()
        try hsmToken.play("fault C_DeriveKey always return=\(code)")
        async let answer = worker.call(payment.request)
        try await wait(for: "three refusals") { hsmToken.calls("C_DeriveKey").count { $0.value == code } >= 3 }
        try hsmToken.play()
        #expect(try await answer == .plaintext(payment.plaintext, tier: .c))
        // A busy HSM token is no reason to reopen sessions or to log in again.
        #expect(hsmToken.calls("C_CloseSession").isEmpty && hsmToken.calls("C_Login").count == 1)
    }

    @Test("fails with overloaded if the HSM token is busy until the deadline, and serves afterwards")
    func staysBusy() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, callTimeout: 400)
        try hsmToken.play("fault C_DeriveKey always return=0x31")
        let answer = try await worker.call(try EncryptedPayment.ec().request)
        #expect(answer.failureKind == .overloaded)
        #expect(answer.failureMessage.contains("CKR_DEVICE_MEMORY"), "\(answer)")
        try hsmToken.play()
        let later = try EncryptedPayment.ec()
        #expect(try await worker.call(later.request) == .plaintext(later.plaintext, tier: .c))
    }

    @Test("measures the wait for a busy HSM token from the time at which the call gets a session, not from its arrival")
    func waitedInWorker() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        // The worker repeats a call within three quarters of the timeout, which is 1.5 s.
        let worker = try await serving(hsmToken, callTimeout: 2000)
        let (first, second) = (try EncryptedPayment.ec(), try EncryptedPayment.ec())
        // The first call takes 2.5 s, so the second call waits longer than 1.5 s for the only session. The HSM token
        // then refuses the second call once as busy.
        try hsmToken.play("fault C_DeriveKey nth=1 delay=2500", "fault C_DeriveKey nth=2 return=0x31")
        worker.send(try first.request.encoded(identifier: 1001) + second.request.encoded(identifier: 1002))
        for (identifier, payment) in [(UInt64(1001), first), (1002, second)] {
            let received = try await worker.receive()
            #expect(received?.identifier == identifier)
            #expect(received?.answer == .plaintext(payment.plaintext, tier: .c))
        }
    }

    // MARK: Lost sessions and logins

    @Test("completes a call despite a logout, closed sessions or changed slot numbers, with one new login for each")
    func disturbances() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, sessions: 2)
        let disturbances: [(what: String, instructions: [String])] = [
            ("logout", ["fault C_DeriveKey nth=1 logout"]),
            ("logout in the middle", ["fault C_GetAttributeValue nth=1 logout"]),
            ("all sessions closed", ["fault C_DeriveKey nth=1 close-sessions"]),
            (
                "all sessions closed, then other slot numbers",
                ["slot-offset 50", "fault C_DeriveKey nth=1 close-sessions"]
            ),
            ("back in the old slots", ["fault C_DeriveKey nth=1 close-sessions"]),
        ]
        for (number, disturbance) in disturbances.enumerated() {
            try hsmToken.play(disturbance.instructions)
            // Several calls follow, so that both sessions use the renewed login.
            for _ in 0..<4 {
                let payment = try EncryptedPayment.ec()
                let answer = try await worker.call(payment.request)
                #expect(answer == .plaintext(payment.plaintext, tier: .c), "\(disturbance.what)")
            }
            #expect(hsmToken.calls("C_Login").count == number + 2, "\(disturbance.what)")
        }
        let rsa = try EncryptedPayment.rsa()
        #expect(try await worker.call(rsa.request) == .plaintext(rsa.plaintext, tier: .c))
    }

    @Test(
        "ends a listing if the HSM token closes sessions or logs out, and lists every key in the next listing",
        arguments: [
            "C_GetSessionInfo nth=1 close-sessions", "C_GetAttributeValue nth=1 close-sessions",
            "C_GetAttributeValue nth=2 close-sessions", "C_GetSessionInfo nth=1 logout",
            "C_GetAttributeValue nth=1 logout", "C_GetAttributeValue nth=2 logout",
        ])
    func endedListing(_ fault: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, callTimeout: 400)
        // The delay leaves time for only one of the two keys in each page.
        try hsmToken.play("fault C_GetAttributeValue always delay=60")
        guard case .keyPage(_, let listing) = try await worker.call(.listKeys) else {
            Issue.record("two keys on one page")
            return
        }
        try hsmToken.play("fault \(fault)")
        let answer = try await worker.call(.listMoreKeys(listing: listing))
        #expect(answer.failureKind == .listingEnded, "\(answer)")
        #expect(try await worker.keys().filter { $0.inconsistency == nil }.count == 2)
        #expect(hsmToken.calls("C_Login").count == 2)
    }

    @Test(
        "decrypts every transaction despite one unexpected return value",
        arguments: [
            "C_DeriveKey", "C_GetAttributeValue", "C_DestroyObject", "C_DecryptInit", "C_Decrypt",
        ])
    func passingError(_ call: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken)
        let isRSA = call.hasPrefix("C_Decrypt")
        // The values stand for general, function and device errors, removed devices and HSM tokens, and invalid
        // handles, operations, sessions and logins.
        for value: UInt in [
            0x5, 0x6, 0x30, 0x32, 0xE0, 0x60, 0x82, 0x90, 0x91, 0xB0, 0xB3, 0x101, 0x8000_0001,
        ] {
            let payment =
                isRSA ? try EncryptedPayment.rsa() : try EncryptedPayment.ec()
            let before = hsmToken.calls(call).count { $0.value == value }
            try hsmToken.play("fault \(call) nth=1 return=\(value)")
            let answer = try await worker.call(payment.request)
            #expect(
                answer == .plaintext(payment.plaintext, tier: .c), "\(call) 0x\(String(value, radix: 16)): \(answer)")
            #expect(hsmToken.calls(call).count { $0.value == value } == before + 1)
        }
        #expect(try await worker.call(.probe) == .done)
    }

    @Test(
        "reports the HSM token as unavailable if each new session or handle is lost again",
        arguments: [
            ("0xB3", "The HSM token does not decrypt any more"), ("0xB0", "The HSM token does not decrypt any more"),
            ("0x60", "The HSM token does not show the key any more"),
        ])
    func alwaysLost(_ value: String, reason: String) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken)
        try hsmToken.play("fault C_DeriveKey always return=\(value)")
        let answer = try await worker.call(try EncryptedPayment.ec().request)
        #expect(answer.failureKind == .hsmTokenUnavailable, "\(answer)")
        #expect(answer.failureMessage.contains("\(reason): C_DeriveKey"), "\(answer)")
    }

    @Test("reports a lost session during a key operation as an unavailable HSM token, not as a refused key")
    func lostDuringImport() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try WorkerUnderTest(hsmToken)
        let description = try await worker.open(hsmToken)
        try hsmToken.play("fault C_CreateObject always return=0xB3", "fault C_GenerateKeyPair always return=0x32")
        let imported = try await worker.importKey(try SharedForge.ecMerchant, description)
        #expect(imported.failureKind == .hsmTokenUnavailable, "\(imported)")
        let generation = KeyGeneration(merchantIdentifier: "merchant.test", algorithm: .ec)
        let generated = try await worker.call(.generateKey(generation))
        #expect(generated.failureKind == .hsmTokenUnavailable, "\(generated)")
        let audit = try await worker.call(.createAuditKey(identifier: [UInt8](1...16)))
        #expect(audit.failureKind == .hsmTokenUnavailable, "\(audit)")
    }

    @Test("does not open an HSM token that loses the session in every test, and gives the reason")
    func lostInTests() async throws {
        let hsmToken = try ScriptedToken(
            try await TokenDirectory(), "fault C_CreateObject always return=0xB3",
            "fault C_GenerateKeyPair always return=0xB3")
        let failure = await #expect(throws: WorkerFailure.self) { try await WorkerUnderTest(hsmToken).open(hsmToken) }
        #expect(failure?.kind == .hsmTokenUnavailable)
        #expect(failure?.message.contains("CKR_SESSION_HANDLE_INVALID") == true, "\(failure?.message ?? "")")
    }

    @Test(
        "waits for the other session's use of a key before it ends the key's working copy or the login session",
        arguments: [
            // The second session's handle of the key is said to be invalid: it destroys the copy and makes another.
            ["fault C_DeriveKey nth=2 return=0x60"],
            // The second session is lost, and then the session that owns the login and the working copies.
            [
                "fault C_DeriveKey nth=2 return=0xB3", "fault C_GetSessionInfo nth=2 return=0xB3",
                "fault C_GetSessionInfo nth=3 return=0xB3", "fault C_GetSessionInfo nth=4 return=0xB3",
            ],
        ])
    func objectsInUse(_ faults: [String]) async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, sessions: 2, callTimeout: 120_000)
        let payments = [try EncryptedPayment.ec(), try EncryptedPayment.ec()]
        let before = hsmToken.calls().count
        try hsmToken.play(["fault C_DeriveKey nth=1 delay=700"] + faults)
        for (identifier, payment) in payments.enumerated() {
            worker.send(try payment.request.encoded(identifier: UInt64(900 + identifier)))
        }
        for _ in payments {
            let (identifier, answer) = try #require(try await worker.receive())
            #expect(answer == .plaintext(payments[Int(identifier) - 900].plaintext, tier: .c))
        }
        let calls = hsmToken.calls().dropFirst(before)
        // The delayed call, which began first, found its key. CKR_KEY_HANDLE_INVALID is the fault of the first script.
        let stale = calls.filter { $0.function == "C_DeriveKey" && [0x60, 0x82].contains($0.value) }
        #expect(stale.count == faults.count { $0.contains("return=0x60") }, "\(stale)")
        #expect(calls.contains { ["C_DestroyObject", "C_CloseSession"].contains($0.function) })
    }

    @Test("never refuses or corrupts a transaction under many kinds of occasional errors")
    func randomErrors() async throws {
        let hsmToken = try ScriptedToken(try await TokenDirectory())
        let worker = try await serving(hsmToken, sessions: 2)
        try hsmToken.play(
            "fault C_DeriveKey random=30 return=0x5", "fault C_DeriveKey random=40 return=0x60",
            "fault C_GetAttributeValue random=50 return=0x30", "fault C_GetSessionInfo random=20 return=0xB3",
            "fault C_DeriveKey random=50 answer=0xB3", "fault C_DeriveKey random=35 return=0x31")
        var expected: [UInt64: EncryptedPayment] = [:]
        for identifier in UInt64(500)..<620 {
            let payment = try EncryptedPayment.ec()
            expected[identifier] = payment
            worker.send(try payment.request.encoded(identifier: identifier))
        }
        var opened = 0
        for _ in 0..<120 {
            let (identifier, answer) = try #require(try await worker.receive())
            let payment = try #require(expected[identifier])
            // After repeated errors, the worker may let the caller try again later, but must not refuse the transaction.
            if [.overloaded, .hsmTokenUnavailable].contains(answer.failureKind) { continue }
            #expect(answer == .plaintext(payment.plaintext, tier: .c))
            opened += 1
        }
        #expect(opened > 100)
        #expect(hsmToken.calls("C_DeriveKey").count { $0.value != 0 } > 5)
    }
}
