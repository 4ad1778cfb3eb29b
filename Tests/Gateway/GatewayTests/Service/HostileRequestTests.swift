import Foundation
import TestSupport
import Testing

@testable import Gateway

/// Input from untrusted callers. DaemonTests/Listener tests the listener's own rules; these tests show that the gateway
/// applies them, and that it reads only the request's head before it knows the client.
@Suite("Hostile requests at the gateway")
struct HostileRequestTests {
    private static func post(_ headers: String) -> String {
        "POST /echo HTTP/1.1\r\n\(GatewayFixture.authorized)Content-Type: application/json\r\n\(headers)\r\n"
    }

    @Test("reads no body without a key, for any length in the head")
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

    @Test("answers 413 to a body over the limit, declared or chunked, and ends the connection")
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

    @Test("refuses a head that is too large, from any sender")
    func hugeHead() async throws {
        try await GatewayFixture().use { gateway in
            let client = try await gateway.connect()
            client.sendLossy("GET /whoami HTTP/1.1\r\nHost: x\r\nX: " + String(repeating: "a", count: 40_000))
            #expect(try await client.answer().status == 413)
            try await client.waitForEnd()
        }
    }

    @Test("ends a slow head with the time for identification")
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
        "refuses with a bare 400 a message that two readers could frame differently",
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

    @Test("answers a client that has finished sending")
    func halfClosed() async throws {
        try await GatewayFixture().use { gateway in
            let client = try await gateway.connect()
            try await client.send(Self.post("Content-Length: 2\r\n") + "{}")
            try await client.finishSending()
            #expect(try await client.answer().body == "shop 2")
        }
    }

    @Test("identifies no client by two keys, a key in the query, or another scheme")
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
