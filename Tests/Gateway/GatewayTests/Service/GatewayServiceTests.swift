import ConfigurationFile
import Foundation
import ServerProgram
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import Gateway
@testable import HTTPListener

@Suite("A gateway's lifetime")
struct GatewayServiceTests {
    @Test("serves health, readiness, metrics and status on the admin socket, to its owner only")
    func monitoring() async throws {
        try await GatewayFixture().use { gateway in
            func admin(_ path: String) async throws -> CurlAnswer {
                try await Curl.request(path, socket: gateway.adminSocket)
            }
            #expect(try await admin("/healthz").status == 200)
            let ready = try await admin("/readyz")
            #expect(ready.status == 503 && ready.text.contains("\"paytokend\"") && ready.text.contains("unreachable"))
            _ = try await gateway.get("/whoami")
            let metrics = try await admin("/metrics")
            #expect(
                metrics.metric("paytoken_gateway_requests_total", ["endpoint=\"/whoami\"", "outcome=\"ok\""]) == [1])
            #expect(metrics.metric("paytoken_gateway_insecure_settings").isEmpty, "a Unix socket needs no TLS")
            #expect(metrics.metric("paytoken_gateway_ready") == [0], "paytokend is away")
            let status = try await admin("/v1/status")
            #expect(status.status == 200 && status.string("version") != nil)
            #expect(status.text.contains("\"shop\"") && status.text.contains("merchant.com.example.*"))
            #expect(!status.text.contains(GatewayFixture.NewKeyHash.of(GatewayFixture.key)))
            #expect(try await admin("/whoami").status == 404)
            #expect(try await admin("/metrics?x=1").status == 400)
            let mode = try FileManager.default.attributesOfItem(atPath: gateway.adminSocket)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            // The merchants' endpoints do not offer administration.
            #expect(try await gateway.get("/metrics").status == 404)
        }
    }

    @Test(
        "names every metric with the gateway's prefix, in snake case and a base unit, as promtool check metrics requires"
    )
    func names() {
        let instruments = GatewayInstruments()
        let lines = instruments.exposition().split(separator: "\n")
        let types = Set(lines.filter { $0.hasPrefix("# TYPE ") }.map { String($0.dropFirst(7)) })
        #expect(
            types == [
                "paytoken_gateway_requests_total counter", "paytoken_gateway_request_seconds histogram",
                "paytoken_gateway_ready gauge", "paytoken_gateway_connections gauge",
                "paytoken_gateway_refused_connections_total counter",
                "paytoken_gateway_tls_handshakes_total counter", "paytoken_gateway_reloads_total counter",
                "paytoken_gateway_insecure_settings gauge", "paytoken_gateway_certificate_not_after_seconds gauge",
            ])
    }

    @Test("has one row for each code, with a status of its kind")
    func codes() {
        #expect(Set(GatewayCode.allCases.map(\.rawValue)).count == GatewayCode.allCases.count)
        for code in GatewayCode.allCases {
            #expect((400..<600).contains(code.statusAndRetryAfter.status), "\(code)")
            #expect(
                code.statusAndRetryAfter.retryAfter == nil || [429, 503].contains(code.statusAndRetryAfter.status),
                "\(code)")
        }
    }

    @Test("refuses to start a second gateway on a live admin socket, and keeps serving the first")
    func second() async throws {
        try await GatewayFixture().use { gateway in
            do {
                _ = try await GatewayFixture(in: gateway.directory)
                Issue.record("a second one serves")
            } catch let error as ListenerError {
                #expect(StartFailure(listener: error).exitStatus == .tryAgainLater)
            }
            #expect(try await gateway.get("/whoami").status == 200)
        }
    }

    @Test("applies a reload's clients at an open connection's next request, all or nothing")
    func reload() async throws {
        try await GatewayFixture().use { gateway in
            let open = try await gateway.connect()
            let request = "GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n"
            try await open.send(request)
            #expect(try await open.answer().status == 200)
            let text = try String(contentsOfFile: gateway.configurationFile, encoding: .utf8)
            let log = StandardErrorLog()

            // The error is at the end of the file, so the test shows that no part of the file takes effect.
            let renamed = text.replacing("name: shop", with: "name: boutique")
            try gateway.directory.write(renamed + "sesions: {}\n", to: "c.yaml")
            await gateway.reload(log)
            try await open.send(request)
            #expect(try await open.answer().body == "shop 0")

            try gateway.directory.write(renamed + "log: { level: error }\n", to: "c.yaml")
            await gateway.reload(log)
            try await open.send(request)
            #expect(try await open.answer().body == "boutique 0")
            #expect(log.level == .error)

            let without = text.replacing(
                GatewayFixture.NewKeyHash.of(GatewayFixture.key), with: String(repeating: "00", count: 32))
            try gateway.directory.write(without.replacing("timeout: 2s", with: "timeout: 3s"), to: "c.yaml")
            await gateway.reload(log)
            try await open.send(request)
            #expect(try await open.answer().status == 401)
            #expect(
                gateway.log.current.contains {
                    $0.contains("only after a restart") && $0.contains("sections=paytokend")
                })
            let metrics = try await Curl.request("/metrics", socket: gateway.adminSocket)
            #expect(metrics.metric("paytoken_gateway_reloads_total", ["outcome=\"ok\""]) == [2])
            #expect(metrics.metric("paytoken_gateway_reloads_total", ["outcome=\"refused\""]) == [1])
        }
    }

    @Test("shows an insecure setting that a reload brings, and no longer shows it after a reload without it")
    func reloadedWarnings() async throws {
        let limits = "limits: { max_connections: 100, max_connections_per_client: 30 }\n"
        try await GatewayFixture(sections: limits).use { gateway in
            let text = try String(contentsOfFile: gateway.configurationFile, encoding: .utf8)
            let third = GatewayFixture.clients().replacing("clients:\n", with: "")
                .replacing("name: shop", with: "name: third").replacing("name: other", with: "name: fourth")
                .replacing(GatewayFixture.NewKeyHash.of(GatewayFixture.key), with: String(repeating: "01", count: 32))
                .replacing(
                    GatewayFixture.NewKeyHash.of(GatewayFixture.otherKey), with: String(repeating: "02", count: 32))
            func shown() async throws -> [Double] {
                let metrics = try await Curl.request("/metrics", socket: gateway.adminSocket)
                return metrics.metric("paytoken_gateway_insecure_settings", ["setting=\"client_connections\""])
            }
            #expect(try await shown().isEmpty)
            try gateway.directory.write(text.replacing("clients:\n", with: "clients:\n" + third), to: "c.yaml")
            await gateway.reload()
            #expect(try await shown() == [1])
            #expect(gateway.log.current.contains { $0.contains("max_connections leaves 75 connections") })
            try gateway.directory.write(text, to: "c.yaml")
            await gateway.reload()
            #expect(try await shown().isEmpty)
        }
    }

    @Test("finishes the request under way while draining, and accepts no more")
    func drains() async throws {
        let gateway = try await GatewayFixture()
        let busy = try await gateway.connect()
        try await busy.send("GET /held HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n")
        try await wait(for: "the request to be under way") { gateway.latch.waiting == 1 }
        let shutdown = Task { await gateway.listener.shutdown(grace: .seconds(20)) }
        try await wait(for: "the socket file to go") { !FileManager.default.fileExists(atPath: gateway.socket) }
        await #expect(throws: (any Error).self) { _ = try await gateway.connect() }
        gateway.latch.open()
        #expect(try await busy.answer().body == "shop 0")
        await shutdown.value
    }
}
