import Foundation
import TestSupport
import Testing
import TokenForge

/// SIGTERM while a token hangs: the daemon ends by itself, within the time that it promises.
@Suite struct DrainTests {
    /// `paytokend` promises this; systemd kills ten seconds later (TimeoutStopSec in hsm-config/paytokend.service).
    private static let promised = Duration.seconds(30)

    private func harness(_ token: ScriptedToken) async throws -> DaemonHarness {
        var configuration = DaemonConfiguration()
        // Longer than the daemon has: the limit of a call must not be what ends the worker.
        configuration.tokens = [TokenEntry("primary", token, ["call_timeout: 60s"])]
        return try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
    }

    private func callsBegun(_ harness: DaemonHarness) async throws -> Int {
        let name = "paytokend_hsm_wait_seconds_count "
        let text = try await harness.admin("/metrics").text
        return text.split(separator: "\n").first { $0.hasPrefix(name) }.flatMap { Int($0.dropFirst(name.count)) } ?? 0
    }

    /// Stops it, and looks at how it did that.
    private func drain(_ harness: DaemonHarness) async throws {
        let worker = try harness.worker()
        let began = ContinuousClock.now
        let result = try await harness.stop(within: 90)
        let took = ContinuousClock.now - began
        #expect(result.status == 0, "\(result)")
        #expect(took < Self.promised, "it took \(took)")
        let log = result.error.split(separator: "\n")
        let draining = try #require(log.firstIndex { $0.contains("\"draining\"") }, "\(log.suffix(20))")
        let stopped = try #require(log.firstIndex { $0.contains("\"stopped\"") }, "\(log.suffix(20))")
        #expect(draining < stopped)
        #expect(kill(worker, 0) != 0, "the worker outlived its daemon")
    }

    @Test("a request whose call hangs in the token is refused, its worker killed, and the daemon ends with 0")
    func hangingCall() async throws {
        let token = try ScriptedToken(try await TokenDirectory())
        let harness = try await harness(token)
        let begun = try await callsBegun(harness)
        try token.play("fault C_DeriveKey always hang")
        let payment = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.ecMerchant.merchant))
        async let request = harness.decrypt(payment, reference: "r")
        try await wait(for: "the call") { try await callsBegun(harness) > begun }
        try await drain(harness)
        let answer = try await request
        #expect(answer.status == 503 && answer.code == "hsm_unavailable", "\(answer)")
        #expect(answer.header("Retry-After").flatMap(Int.init) != nil)
    }

    @Test("a stopped worker does not keep the daemon, which cannot seal its record then, from its end")
    func stoppedWorker() async throws {
        let harness = try await harness(try ScriptedToken(try await TokenDirectory()))
        kill(try harness.worker(), SIGSTOP)
        try await drain(harness)
    }
}
