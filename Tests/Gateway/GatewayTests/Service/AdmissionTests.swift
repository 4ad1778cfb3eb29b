import Foundation
import HTTPListener
import StrictJSON
import Telemetry
import TestSupport
import Testing

@testable import Gateway

@Suite("Admission of requests")
struct AdmissionTests {
    @Test("serves a known bearer key under its client's name")
    func served() async throws {
        try await GatewayFixture().use { gateway in
            #expect(try await gateway.get("/whoami").text == "shop 0")
            #expect(try await gateway.get("/whoami", key: GatewayFixture.otherKey).text == "other 0")
            let posted = try await Curl.request(
                "/echo", socket: gateway.socket, body: Array("{}".utf8),
                arguments: ["--header", "Authorization: Bearer \(GatewayFixture.key)"])
            #expect(posted.text == "shop 2")
            #expect(posted.header("Cache-Control") == "no-store")
        }
    }

    @Test("answers an unknown client alike on every path, and ends the connection")
    func unknown() async throws {
        try await GatewayFixture().use { gateway in
            for path in ["/whoami", "/nothing", "/pay"] {
                for key in [nil, "wrong", GatewayFixture.key + "x"] {
                    let answer = try await gateway.get(path, key: key)
                    #expect(answer.status == 401 && answer.code == "unauthorized")
                    #expect(answer.header("WWW-Authenticate") == "Bearer realm=\"paytoken-gateway\"")
                    #expect(answer.header("Connection") == "close")
                }
            }
            #expect(gateway.answered.current == 0)
            #expect(!gateway.log.current.contains { $0.contains("wrong") || $0.contains(GatewayFixture.key) })
        }
    }

    @Test("limits the log of unknown clients to one line in ten seconds, and counts each request in the metric")
    func unknownLines() async throws {
        try await GatewayFixture().use { gateway in
            let began = ContinuousClock.now
            for _ in 0..<40 { #expect(try await gateway.get("/whoami", key: "wrong").status == 401) }
            let lines = gateway.log.current.filter { $0.contains("request.outcome=unauthorized") }
            let most = 1 + Int((ContinuousClock.now - began) / BoundedLines<ConnectionSource>.interval)
            #expect((1...most).contains(lines.count), "\(lines)")
            // The lines are limited for all addresses together, failed handshakes included, so a day's log fits on a
            // disk.
            let aDay = 86_400 / Int(BoundedLines<ConnectionSource>.interval.components.seconds)
            let longest = try #require(lines.map(\.utf8.count).max())
            #expect(2 * longest * (BoundedLines<ConnectionSource>.maximumSources + 1) * aDay < 1 << 29)
            let metrics = try await Curl.request("/metrics", socket: gateway.adminSocket)
            let counted = metrics.metric("paytoken_gateway_requests_total", ["outcome=\"unauthorized\""])
            #expect(counted == [40])
        }
    }

    @Test("refuses with status, code and headers, and keeps the connection where that is safe")
    func refusals() async throws {
        try await GatewayFixture().use { gateway in
            let forbidden = try await gateway.get("/pay")
            #expect(forbidden.status == 403 && forbidden.code == "forbidden")
            #expect(forbidden.string("details") == "the operation pay")
            #expect(try await gateway.get("/nothing").status == 404)
            let method = try await gateway.get("/echo")
            #expect(method.status == 405 && method.header("Allow") == "POST")
            #expect(try await gateway.get("/whoami?a=1").status == 400)
            let type = try await Curl.request(
                "/echo", socket: gateway.socket, body: Array("{}".utf8), contentType: "text/plain",
                arguments: ["--header", "Authorization: Bearer \(GatewayFixture.key)"])
            #expect(type.status == 415)
            let refused = try await gateway.get("/refused")
            #expect(refused.status == 503 && refused.code == "hsm_unavailable" && refused.header("Retry-After") == "7")
            #expect(refused.string("message") == "The token is away.")
        }
    }

    @Test("tells a client over its rate when to return, and serves another")
    func rates() async throws {
        let sections = "limits: { requests_per_second: 1, burst: 3, idle_timeout: 10m, authentication_timeout: 60s }\n"
        try await GatewayFixture(sections: sections).use { gateway in
            // The burst is larger than the rate allows even on a slow machine. If all requests are still accepted, the
            // test sends another burst.
            let request = "GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n"
            var answers = ""
            try await wait(for: "a refusal") {
                let client = try await gateway.connect()
                client.sendLossy(
                    String(repeating: request, count: 50) + request.replacing("Host", with: "Connection: close\r\nHost")
                )
                answers = try await client.everything()
                return answers.contains("HTTP/1.1 429 ")
            }
            #expect(answers.contains("\"rate_limited\"") && answers.contains("Retry-After: 1\r\n"))
            #expect(answers.hasSuffix("}"), "the connection ends with it")
            #expect(try await gateway.get("/whoami", key: GatewayFixture.otherKey).status == 200)
        }
    }

    @Test("limits a client's connections, and gives another client its own")
    func connections() async throws {
        let sections =
            "limits: { max_connections_per_client: 2, idle_timeout: 10m, authentication_timeout: 60s }\n"
        try await GatewayFixture(sections: sections).use { gateway in
            var kept: [RawConnection] = []
            for _ in 0..<2 {
                let connection = try await gateway.connect()
                try await connection.send("GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n")
                #expect(try await connection.answer().status == 200)
                kept.append(connection)
            }
            #expect(try await gateway.get("/whoami").status == 429)
            #expect(try await gateway.get("/whoami", key: GatewayFixture.otherKey).status == 200)
            try await kept[0].send("GET /whoami HTTP/1.1\r\n\(GatewayFixture.authorized)\r\n")
            #expect(try await kept[0].answer().status == 200, "its own connections are served")
            await kept[1].close()
            try await wait(for: "the free place") { try await gateway.get("/whoami").status == 200 }
        }
    }

    @Test("answers deadline_exceeded when an answer is not ready in time")
    func deadline() async throws {
        let sections =
            "limits: { request_timeout: 200ms, idle_timeout: 10m, authentication_timeout: 60s }\n"
        try await GatewayFixture(sections: sections).use { gateway in
            let answer = try await gateway.get("/held")
            #expect(answer.status == 503 && answer.code == "deadline_exceeded")
        }
    }

    @Test("logs each request in one line with client, outcome and the caller's trace, without secrets")
    func logs() async throws {
        try await GatewayFixture().use { gateway in
            let trace = "4bf92f3577b34da6a3ce929d0e0e4736"
            _ = try await Curl.request(
                "/echo", socket: gateway.socket, body: Array("{\"number\":\"4111111111111111\"}".utf8),
                arguments: [
                    "--header", "Authorization: Bearer \(GatewayFixture.key)", "--header",
                    "traceparent: 00-\(trace)-00f067aa0ba902b7-01",
                ])
            let lines = gateway.log.current.filter { $0.contains("request.endpoint=/echo") }
            #expect(lines.count == 1, "\(lines)")
            let line = try #require(lines.first)
            for part in [
                "answered", "client=shop", "request.outcome=ok", "trace.id=\(trace)",
                "parent.id=00f067aa0ba902b7",
            ] {
                #expect(line.contains(part), "\(line)")
            }
            #expect(!gateway.log.current.contains { $0.contains("4111") || $0.contains(GatewayFixture.key) })
        }
    }
}
