import Foundation
import StrictJSON
import TestSupport
import Testing

/// Secrets that the limit on locked memory leaves to the swap.
@Suite struct UnlockedSecretsTests {
    private static let sentence = "secrets are not locked in memory"
    private static let metric = "paytokend_unlocked_secret_bytes "

    private func bytes(_ metrics: String) throws -> Int {
        let line = try #require(metrics.split(separator: "\n").first { $0.hasPrefix(Self.metric) })
        return try #require(Int(line.dropFirst(Self.metric.count)))
    }

    private func warnings(_ status: CurlAnswer) -> [String] {
        (status.member("warnings")?.arrayValue ?? []).compactMap(\.stringValue).filter { $0.contains(Self.sentence) }
    }

    @Test(
        "without room for locked memory, metric and status say so for daemon and worker, and the log once for each",
        .enabled(if: PeerIdentity.available, "root may lock memory whatever the limit is, and only root can be another")
    )
    func unlocked() async throws {
        let identity = PeerIdentity(uid: 4243, gid: 4243)
        let harness = try await DaemonHarness(prepared: DaemonConfiguration())
        try await harness.give(to: identity)
        try await harness.start(as: identity, through: [Program.installed("prlimit"), "--memlock=0:0"])
        let pool = 65536
        let metrics = try await Curl.request("/metrics", socket: harness.adminSocket, as: identity).text
        // Each of the two processes has at least one piece of its pool.
        #expect(try bytes(metrics) >= 2 * pool)
        let status = try await Curl.request("/v1/status", socket: harness.adminSocket, as: identity)
        #expect(status.status == 200, "\(status)")
        let said = warnings(status)
        #expect(said.count == 2, "\(said)")
        #expect(said.contains { $0.hasPrefix("paytokend: ") } && said.contains { $0.hasPrefix("token primary: ") })
        let error = { try harness.daemon.error.split(separator: "\n").filter { $0.contains(Self.sentence) } }
        try await wait(for: "both warnings in the log") { try error().count == 2 }
        // Another worker does not say it again.
        let first = try harness.worker()
        kill(first, SIGKILL)
        try await wait(for: "the next worker") { try harness.workers().contains { $0 != first } }
        try await harness.waitUntilReady()
        #expect(try await harness.stop().status == 0)
        let lines = try error()
        #expect(lines.count == 2, "\(lines)")
    }

    @Test("with room for it the metric is 0 and nobody is warned")
    func locked() async throws {
        let harness = try await SharedDaemon.harness
        #expect(try bytes(await harness.admin("/metrics").text) == 0)
        #expect(warnings(try await harness.admin("/v1/status")).isEmpty)
        #expect(!(try harness.daemon.error.contains(Self.sentence)))
    }
}
