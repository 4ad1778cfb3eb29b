import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// Faults of the PKCS#11 library in a worker. The daemon must still answer every request.
@Suite struct WorkerFaultTests {
    private struct Setup {
        let hsmToken: ScriptedToken
        let harness: DaemonHarness

        init(_ lines: [String] = [], _ instructions: String...) async throws {
            hsmToken = try ScriptedToken(try await TokenDirectory())
            try hsmToken.play(instructions)
            var configuration = DaemonConfiguration()
            configuration.hsmTokens = [TokenEntry("primary", hsmToken, lines)]
            harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        }

        /// Releases this number of payments, four in parallel.
        func release(_ count: Int) async throws {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for _ in 0..<count / 4 {
                            let paymentToken = try SharedForge.paymentToken()
                            let answer = try await harness.decrypt(paymentToken, reference: "r")
                            #expect(answer.status == 200, "\(answer)")
                            #expect(answer.member("repeated")?.boolValue == false)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }

        /// Returns the value of the first metric with this name and all these labels, or 0 if there is none.
        func metric(_ name: String, _ labels: String...) async throws -> Double {
            try await harness.admin("/metrics").metric(name, labels).first ?? 0
        }

        func restarts(_ reason: String) async throws -> Double {
            try await metric("paytokend_worker_restarts_total", "reason=\"\(reason)\"", "token=\"primary\"")
        }
    }

    @Test("ends the worker of a hanging call at call_timeout, and completes the calls in flight in the next worker")
    func hangingCall() async throws {
        let setup = try await Setup(["call_timeout: 3s"])
        try setup.hsmToken.play("fault C_DeriveKey nth=5 hang once")
        try await setup.release(20)
        #expect(try await setup.restarts("timeout") == 1)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("loses no request if the library crashes in any call")
    func crashingCall() async throws {
        let setup = try await Setup()
        for (number, call) in ["C_DeriveKey", "C_GetAttributeValue", "C_DestroyObject"].enumerated() {
            try setup.hsmToken.play("fault \(call) nth=3 crash once")
            try await setup.release(12)
            #expect(try await setup.restarts("died") == Double(number + 1), "\(call)")
        }
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("loses no request if the library fails permanently after a few calls in every worker")
    func permanentFailure() async throws {
        let setup = try await Setup()
        let first = try setup.harness.worker()
        kill(first, SIGKILL)
        try await wait(for: "the next worker") { try setup.harness.workers().contains { $0 != first } }
        try await setup.harness.waitUntilReady()
        // The number of C_DeriveKey calls that a worker makes at its start, for its self-tests.
        let next = try setup.harness.worker()
        let atStart = setup.hsmToken.calls("C_DeriveKey").count { $0.process == next }
        #expect(atStart > 2)
        try setup.hsmToken.play("fault C_DeriveKey from=\(atStart + 6) return=0x30")
        // The present worker makes atStart + 5 more calls, and each later one answers five payments.
        try await setup.release(atStart + 16)
        #expect(try await setup.restarts("token") >= 2)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("reports the HSM token as unavailable, with the reason, if every session is lost in every worker")
    func deadSessions() async throws {
        let setup = try await Setup()
        let harness = setup.harness
        try setup.hsmToken.play(
            [
                "C_DeriveKey", "C_DecryptInit", "C_SignInit", "C_CreateObject", "C_CopyObject", "C_GenerateKeyPair",
                "C_FindObjectsInit",
            ].map { "fault \($0) always return=0xB3" })
        let refused = try await harness.decrypt(try SharedForge.paymentToken())
        #expect(refused.status == 503 && refused.code == "hsm_unavailable", "\(refused)")
        try await wait(for: "the reason in /readyz") {
            let ready = try await Curl.request("/readyz", socket: harness.socket)
            return ready.status == 503 && ready.text.contains("CKR_SESSION_HANDLE_INVALID")
        }
        let status = try await harness.admin("/v1/status")
        let hsmToken = try #require(status.member("tokens")?.arrayValue?.first?.objectValue)
        #expect(hsmToken["condition"]?.stringValue == "unavailable", "\(status)")
        #expect(status.text.contains("CKR_SESSION_HANDLE_INVALID"), "\(status)")
        let later = try await harness.decrypt(try SharedForge.paymentToken())
        #expect(later.status == 503 && later.code == "hsm_unavailable", "\(later)")
        // The log has the first reason: of the decryption, or of the daemon's own reading of the key's attributes.
        #expect(try harness.daemon.error.contains("CKR_SESSION_HANDLE_INVALID"))
        try setup.hsmToken.play()
        try await harness.waitUntilReady()
        try await setup.release(4)
        #expect(try await harness.stop().status == 0)
    }

    @Test("replaces a leaking worker before the system kills it, and loses no request")
    func leakingWorker() async throws {
        let setup = try await Setup()
        let first = try setup.harness.worker()
        try setup.hsmToken.play("fault C_DeriveKey nth=3 leak=300000000 once")
        try await wait(for: "the worker's replacement", within: 120) {
            try await setup.release(4)
            return try await setup.restarts("memory") == 1
        }
        try await wait(for: "the old worker's end") { try !setup.harness.workers().contains(first) }
        #expect(try await setup.restarts("died") == 0)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("loses no request if workers are replaced after a number of operations")
    func replacedWorkers() async throws {
        let setup = try await Setup(["recycle_after: 20"])
        try await setup.release(100)
        try await wait(for: "three replacements") {
            try await setup.release(4)
            return try await setup.restarts("recycled") >= 3
        }
        #expect(try await setup.restarts("died") == 0)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("tries a wrong PIN only once after the HSM ended the login, and reports the refusal in status")
    func wrongPINAfterRotation() async throws {
        let setup = try await Setup()
        let harness = setup.harness
        let pin = try String(contentsOfFile: setup.hsmToken.pinFile, encoding: .utf8)
        let logins = { setup.hsmToken.calls("C_Login").count }
        let before = logins()
        try Data("99887766\n".utf8).write(to: URL(filePath: setup.hsmToken.pinFile))
        try setup.hsmToken.play("fault C_DeriveKey nth=1 logout")
        for _ in 0..<3 {
            let paymentToken = try SharedForge.paymentToken()
            let answer = try await harness.decrypt(paymentToken)
            #expect(answer.status == 503 && answer.code == "hsm_unavailable", "\(answer)")
        }
        try await wait(for: "the refusal in the status") {
            let ready = try await Curl.request("/readyz", socket: harness.socket)
            return ready.status == 503 && ready.text.contains("the PIN in")
        }
        #expect(logins() == before + 1)
        try setup.hsmToken.play()
        try Data(pin.utf8).write(to: URL(filePath: setup.hsmToken.pinFile))
        try harness.daemon.signal(SIGHUP)
        try await harness.waitUntilReady()
        #expect(logins() == before + 2)
        try await setup.release(4)
        #expect(try await harness.stop().status == 0)
    }

    @Test("serves with fewer sessions than configured if the HSM has fewer, and reports their number in status")
    func fewerSessions() async throws {
        let setup = try await Setup(["sessions: 4"], "session-limit 3")
        let status = try await setup.harness.admin("/v1/status")
        let hsmToken = try #require(status.member("tokens")?.arrayValue?.first?.objectValue)
        #expect(hsmToken["condition"]?.stringValue == "ready")
        // The worker keeps one of the three allowed sessions open, so that it stays logged in.
        #expect(hsmToken["sessions"]?.numberValue?.int == 2)
        try await setup.release(12)
        #expect(try await setup.restarts("token") == 0)
        #expect(try await setup.harness.stop().status == 0)
    }

    @Test("measures each call's wait for the HSM separately from the call itself")
    func histograms() async throws {
        let setup = try await Setup(["sessions: 1"])
        let calls = try await setup.metric("paytokend_hsm_call_seconds_count", "operation=\"decrypt\"")
        let waits = try await setup.metric("paytokend_hsm_wait_seconds_count")
        try await setup.release(12)
        #expect(
            try await setup.metric("paytokend_hsm_call_seconds_count", "operation=\"decrypt\"", "token=\"primary\"")
                == calls + 12)
        #expect(try await setup.metric("paytokend_hsm_wait_seconds_count") >= waits + 12)
        #expect(try await setup.harness.stop().status == 0)
    }
}
