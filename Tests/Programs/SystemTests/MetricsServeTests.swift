import Foundation
import TestSupport
import Testing
import TokenForge

/// promtool, Prometheus' checker of metrics. scripts/prometheus-programs downloads it without installing a service.
enum Promtool {
    static let path: String? = {
        if let installed = try? Program.installed("promtool") { return installed }
        let unpacked = ProjectFiles.path(".build/prometheus/usr/bin/promtool")
        return FileManager.default.isExecutableFile(atPath: unpacked) ? unpacked : nil
    }()

    /// Returns the faults that `promtool check metrics` prints for these metrics; empty if promtool finds none.
    static func complaints(about exposition: [UInt8]) async throws -> String {
        let result = try await Program.run(try #require(path), ["check", "metrics"], input: exposition)
        return result.status == 0 ? "" : result.output + result.error
    }
}

/// Starts `paytokenctl metrics serve` on a port that the system chooses.
enum MetricsServer {
    static func serve(_ socket: String) async throws -> (server: RunningProgram, origin: String) {
        let server = try RunningProgram(
            Program.built("paytokenctl"), ["metrics", "serve", "--listen", "127.0.0.1:0", "--socket", socket])
        try await wait(for: "its address") { server.error.contains("serving metrics") || !server.isRunning }
        let address = server.error.split(separator: " ").first { $0.hasPrefix("address=") }?.dropFirst(8)
        return (server, "http://\(try #require(address, "\(server.error)"))")
    }
}

/// `paytokenctl metrics serve` with a real daemon, requested with curl.
@Suite struct MetricsServeTests {

    @Test("serves the daemon's metrics over TCP, and the reason while the daemon does not run")
    func scrapes() async throws {
        var configuration = DaemonConfiguration()
        // A monitoring account needs only the role monitor.
        configuration.access = ["{ name: metrics, user: \"\(geteuid())\", roles: [monitor] }"]
        let harness = try await DaemonHarness(configuration)
        let (server, origin) = try await MetricsServer.serve(harness.adminSocket)
        func scrape() async throws -> CurlAnswer {
            try await Curl.request("/metrics", socket: nil, origin: origin)
        }
        let first = try await scrape()
        #expect(first.status == 200 && first.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
        #expect(first.metric("paytokend_checkpoint_age_seconds").count == 1)
        #expect(first.metric("paytokend_clock_behind_ledger_seconds") == [0])
        for path in ["/v1/status", "/v1/keys", "/healthz", "/readyz", "/metrics/../v1/status"] {
            let answer = try await Curl.request(path, socket: nil, origin: origin, arguments: ["--path-as-is"])
            #expect(answer.status == 404, "\(path)")
        }
        #expect(try await harness.stop().status == 0)
        // The metrics server reuses the daemon's previous answer for a second.
        try await wait(for: "the end of the figures") { try await scrape().status != 200 }
        let away = try await scrape()
        #expect(away.status == 503 && away.text.contains("paytokend"), "\(away)")
        try await harness.start()
        try await wait(for: "the figures") { try await scrape().status == 200 }
        server.signal(SIGTERM)
        #expect(try await server.result().status == 0)
        #expect(try await harness.stop().status == 0)
    }

    @Test("refuses metrics to an account without the role monitor, and names the role")
    func forbidden() async throws {
        var configuration = DaemonConfiguration()
        configuration.access = ["{ name: shop, user: \"\(geteuid())\", roles: [decrypt] }"]
        let harness = try await DaemonHarness(configuration)
        let (server, origin) = try await MetricsServer.serve(harness.adminSocket)
        let answer = try await Curl.request("/metrics", socket: nil, origin: origin)
        #expect(answer.status == 503 && answer.text.contains("roles: [monitor]"), "\(answer)")
        #expect(!answer.text.contains("# TYPE"))
        server.signal(SIGTERM)
        #expect(try await server.result().status == 0)
        #expect(try await harness.stop().status == 0)
    }

    @Test(
        "exports metrics that promtool accepts after releases, repeats and refusals",
        .enabled(if: Promtool.path != nil, "there is no promtool; scripts/prometheus-programs unpacks it"))
    func promtool() async throws {
        let harness = try await DaemonHarness()
        let merchant = try SharedForge.ecMerchant
        #expect(try await harness.importMerchant(merchant).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken).status == 200)
        #expect(try await harness.decrypt(paymentToken).status != 500)
        try await wait(for: "the caller's first release") {
            try await !harness.metric("paytokend_caller_first_release_timestamp_seconds").isEmpty
        }
        let metrics = try await harness.admin("/metrics")
        #expect(metrics.metric("paytokend_key_not_after_seconds").count == 1)
        #expect(try await Promtool.complaints(about: metrics.body) == "")
        // As a test of the checker, promtool must report a name in camel case and a counter without _total.
        let wrong = "# TYPE paytokend_wrongName counter\npaytokend_wrongName{publicKeyHash=\"1\"} 1\n"
        #expect(try await Promtool.complaints(about: Array(wrong.utf8)) != "")
        #expect(try await harness.stop().status == 0)
    }
}
