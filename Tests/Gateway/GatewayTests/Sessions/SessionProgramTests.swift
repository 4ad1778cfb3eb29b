import Foundation
import TestSupport
import Testing

@testable import Gateway

/// The program paytoken-gateway, run as a process, with a simulated paytokend and a simulated Apple.
@Suite struct SessionProgramTests {
    @Test func theProgramGivesSessionsAndChecksThem() async throws {
        let directory = try FreshDirectory()
        let paytokend = try await FakePaytokend(at: directory.path("p"), SoftwareIdentities.shared.value)
        let apple = try await SimulatedApple()
        try directory.write(
            """
            listener: { address: "unix:g" }
            admin: { socket: a }
            paytokend: { socket: p, timeout: 60s }
            sessions:
              test_server: \(apple.address)
              trust: ["\(try await SimulatedAppleCertificates.shared.value.root)"]
            clients:
              - name: shop
                key_sha256: "\(GatewayFixture.NewKeyHash.of(SessionGateway.key))"
                merchants: ["merchant.com.example.*"]
                operations: [session]
                domains: [shop.example]
            """, to: "c.yaml")
        let program = try RunningProgram(
            Program.built("paytoken-gateway"), ["--config", directory.path("c.yaml")])
        try await wait(for: "the gateway to serve, \(program.error)") {
            program.error.contains("\"serving\"") || !program.isRunning
        }
        let merchant = SoftwareIdentities.merchantIdentifier
        let session = try await Curl.request(
            "/merchant-sessions", socket: directory.path("g"),
            body: Array(
                """
                {"merchantIdentifier":"\(merchant)","displayName":"Shop","initiative":"web",\
                "initiativeContext":"shop.example"}
                """.utf8),
            arguments: ["--header", "Authorization: Bearer \(SessionGateway.key)"])
        #expect(session.status == 200, "\(program.error)")
        #expect(session.body == Array(SimulatedApple.session.utf8))
        let check = try await Curl.request(
            "/v1/session-check", socket: directory.path("a"),
            body: Array(#"{"merchantIdentifier":"\#(merchant)","domain":"shop.example"}"#.utf8))
        #expect(check.status == 200)
        #expect(check.member("code")?.isNull == true)
        let payments = try await Curl.request("/v1/payments/list", socket: directory.path("a"), body: Array("{}".utf8))
        #expect(payments.status == 404 && payments.text.contains("names no processors"), "\(payments)")
        let metrics = try await Curl.request("/metrics", socket: directory.path("a"))
        #expect(metrics.metric("paytoken_gateway_sessions_total", ["outcome=\"ok\""]) == [2])
        #expect(apple.requests.map(\.connection) == [1, 2])
        #expect(paytokend.requests.filter { $0.hasPrefix("POST") }.count == 2)
        program.signal(SIGTERM)
        #expect(try await program.result().status == 0)
        #expect(!program.error.contains("SSH"))
    }
}
