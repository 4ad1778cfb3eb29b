import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

@Suite struct HealthTests {
    @Test("healthz and readyz answer on both sockets")
    func probes() async throws {
        let harness = try await SharedDaemon.harness
        for socket in [harness.socket, harness.adminSocket] {
            #expect(try await Curl.request("/healthz", socket: socket).status == 200)
            let ready = try await Curl.request("/readyz", socket: socket)
            #expect(ready.status == 200 && ready.member("ready")?.boolValue == true, "\(ready)")
        }
    }

    @Test("metrics are Prometheus text with the contract's names, and count a request by its outcome")
    func metrics() async throws {
        let harness = try await SharedDaemon.harness
        func count(_ outcome: String) async throws -> Double {
            let text = try await harness.admin("/metrics").text
            let line = text.split(separator: "\n").first {
                $0.hasPrefix("paytokend_requests_total{") && $0.contains("outcome=\"\(outcome)\"")
                    && $0.contains("decrypt")
            }
            return line.flatMap { $0.split(separator: " ").last }.flatMap { Double($0) } ?? 0
        }
        let before = try await count("unknown_public_key_hash")
        let token = try SharedForge.mint.mint(
            TokenRecipe(merchant: SharedForge.ecMerchant.merchant, deviations: [.unknownPublicKeyHash]))
        #expect(try await harness.decrypt(token).status == 422)
        let good = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.ecMerchant.merchant))
        #expect(try await harness.decrypt(good).status == 200)
        #expect(try await count("unknown_public_key_hash") >= before + 1)
        let answer = try await harness.admin("/metrics")
        #expect(answer.status == 200)
        #expect(answer.header("Content-Type")?.hasPrefix("text/plain") == true)
        for name in [
            "paytokend_requests_total", "paytokend_request_seconds", "paytokend_hsm_wait_seconds",
            "paytokend_hsm_call_seconds", "paytokend_ledger_commit_seconds", "paytokend_key_expiry_days",
            "paytokend_key_uses_total", "paytokend_connections", "paytokend_insecure_settings",
            "paytokend_clock_behind_ledger_seconds",
        ] {
            #expect(answer.text.contains("# TYPE \(name) "), "\(name)")
        }
        // Foreign roots and one person are what this daemon has against it.
        #expect(
            answer.text.split(separator: "\n").contains {
                $0.hasPrefix("paytokend_insecure_settings{") && $0.hasSuffix(" 1")
            })
    }

    @Test("status names the token, its tier and the ledger")
    func status() async throws {
        let harness = try await SharedDaemon.harness
        let answer = try await harness.admin("/v1/status")
        #expect(answer.status == 200, "\(answer)")
        #expect(answer.member("ready")?.boolValue == true)
        let token = try #require(answer.member("tokens")?.arrayValue?.first?.objectValue)
        #expect(token["name"]?.stringValue == "primary")
        #expect(answer.string("version")?.isEmpty == false)
        let command = try await harness.paytokenctl(["status"])
        #expect(command.status == 0, "\(command)")
    }

    @Test("a token that is absent at start means not ready, and ready as soon as it is there")
    func absentToken() async throws {
        let harness = try await DaemonHarness(prepared: DaemonConfiguration(), initializesToken: false)
        try await harness.start(untilReady: false)
        let absent = try await Curl.request("/readyz", socket: harness.socket)
        #expect(absent.status == 503 && absent.member("ready")?.boolValue == false, "\(absent)")
        let reason = try #require(absent.member("reasons")?.arrayValue?.first?.objectValue)
        #expect(reason["component"]?.stringValue?.isEmpty == false && reason["message"]?.stringValue?.isEmpty == false)
        #expect(try await harness.paytokenctl(["status"]).status == 1)
        #expect(try harness.daemon.isRunning)
        try await harness.initializeToken()
        try await harness.waitUntilReady()
        #expect(try await harness.importMerchant(SharedForge.ecMerchant).status == 0)
        let token = try SharedForge.mint.mint(TokenRecipe(merchant: SharedForge.ecMerchant.merchant))
        #expect(try await harness.decrypt(token).status == 200)
        #expect(try await harness.stop().status == 0)
    }
}
