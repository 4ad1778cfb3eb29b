import Foundation
import TestSupport
import Testing

@testable import Gateway

/// What an untrusted caller can send. The listener's own rules are tested with the daemon (DaemonTests/Listener); here is that
/// the gateway has them, and what it adds: before a client is known nothing is read but a head.
@Suite("Hostile requests at the gateway")
struct HostileRequestTests {
    private static func post(_ headers: String) -> String {
        "POST /echo HTTP/1.1\r\n\(GatewayFixture.authorized)Content-Type: application/json\r\n\(headers)\r\n"
    }

    @Test("without a key no body is taken, however long it says it is")
    func noBody() async throws {
        try await GatewayFixture().use { gateway in
            for length in ["5", "131072", "999999999999999999"] {
                let client = try await gateway.connect()
                client.sendLossy(
                    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: \(length)\r\n\r\n"
                )
                #expect(try await client.answer().status == 401)
                try await client.waitForEnd()
            }
            #expect(gateway.answered.current == 0)
        }
    }

    @Test("a body over the limit is 413, declared or chunked, and the connection ends")
    func tooLarge() async throws {
        try await GatewayFixture(listens: "{ address: \"unix:g.sock\", max_request_bytes: 1024 }").use { gateway in
            let declared = try await gateway.connect()
            declared.sendLossy(Self.post("Content-Length: 1025\r\n"))
            #expect(try await declared.answer().status == 413)
            try await declared.waitForEnd()
            let endless = try await gateway.connect()
            endless.sendLossy(
                Self.post("Transfer-Encoding: chunked\r\n") + "800\r\n" + String(repeating: "a", count: 2048))
            let answer = try await endless.answer()
            #expect(answer.status == 413 && answer.body.contains("request_too_large"))
            try await endless.waitForEnd()
            #expect(gateway.answered.current == 0)
        }
    }

    @Test("a head that is too large is refused, whoever sends it")
    func hugeHead() async throws {
        try await GatewayFixture().use { gateway in
            let client = try await gateway.connect()
            client.sendLossy("GET /whoami HTTP/1.1\r\nHost: x\r\nX: " + String(repeating: "a", count: 40_000))
            #expect(try await client.answer().status == 413)
            try await client.waitForEnd()
        }
    }

    @Test("a head that comes slowly ends with the time for getting known")
    func slowHead() async throws {
        let sections = "limits: { authentication_timeout: 300ms, idle_timeout: 10m }\n"
        try await GatewayFixture(sections: sections).use { gateway in
            let client = try await gateway.connect()
            client.sendLossy("GET /whoami HTTP/1.1\r\nHost: x\r\n")
            try await client.waitForEnd()
            #expect(!client.text.hasPrefix("HTTP/1.1 200"))
        }
    }

    @Test(
        "what two readers could frame differently is refused with a bare 400",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: chunked, chunked\r\n", "Content-Length: +5\r\n",
            "Content-Length : 5\r\n",
        ])
    func smuggling(headers: String) async throws {
        try await GatewayFixture().use { gateway in
            let client = try await gateway.connect()
            client.sendLossy(Self.post(headers) + "hello" + Self.post("Content-Length: 2\r\n") + "{}")
            let answer = try await client.everything()
            #expect(answer.hasPrefix("HTTP/1.1 400"), "\(answer.prefix(200))")
            #expect(gateway.answered.current == 0)
        }
    }

    @Test("a client that has sent all it will send still gets its answer")
    func halfClosed() async throws {
        try await GatewayFixture().use { gateway in
            let client = try await gateway.connect()
            try await client.send(Self.post("Content-Length: 2\r\n") + "{}")
            try await client.finishSending()
            #expect(try await client.answer().body == "shop 2")
        }
    }

    @Test("two keys, a key in the query, or another scheme make nobody known")
    func keys() async throws {
        try await GatewayFixture().use { gateway in
            let line = "Authorization: Bearer \(GatewayFixture.key)\r\n"
            for request in [
                "GET /whoami HTTP/1.1\r\nHost: x\r\n\(line)\(line)\r\n",
                "GET /whoami?access_token=\(GatewayFixture.key) HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET /whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Basic \(GatewayFixture.key)\r\n\r\n",
                "GET /whoami HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Bearer \(GatewayFixture.key)\r\n\r\n",
            ] {
                let client = try await gateway.connect()
                client.sendLossy(request)
                #expect(try await client.answer().status == 401)
                try await client.waitForEnd()
            }
            #expect(!gateway.log.current.contains { $0.contains(GatewayFixture.key) })
        }
    }
}
