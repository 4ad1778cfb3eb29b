import Foundation
import TestSupport
import Testing

@testable import Daemon

@Suite("HTTP rules of a request")
struct RequestRulesTests {
    @Test("answers a request with Content-Length, and keeps the connection")
    func keepsAlive() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            for length in [0, 5, 65_536] {
                try await client.send(
                    "POST /echo HTTP/1.1\r\nHost: any\r\nContent-Length: \(length)\r\n\r\n"
                        + String(repeating: "x", count: length))
                let answer = try await client.answer()
                #expect(answer.status == 200)
                #expect(answer.body == "POST /echo \(length)")
                #expect(answer.headers["connection"] == nil)
                #expect(answer.headers["date"]?.hasSuffix(" GMT") == true)
            }
            #expect(!client.isClosed)
        }
    }

    @Test("joins a chunked body")
    func joinsChunks() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            try await client.send("4\r\ndefg\r\n0\r\n\r\n")
            #expect(try await client.answer().body == "POST /c 7")
        }
    }

    @Test("answers a request that arrives in single bytes")
    func takesSingleBytes() async throws {
        // The test waits until each byte is read, so the time limit is long enough for a slow machine.
        try await ListenerFixture(request: .seconds(600)).use { fixture in
            let client = try await fixture.connect()
            for character in "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok" {
                try await client.send(String(character))
            }
            #expect(try await client.answer().body == "POST /b 2")
        }
    }

    @Test("answers pipelined requests in order")
    func answersPipelined() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            let requests = (0..<100).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }
            try await client.send(requests.joined())
            for index in 0..<100 {
                #expect(try await client.answer().body == "GET /\(index) 0")
            }
        }
    }

    @Test("answers HEAD with the head alone, which states the body's length")
    func answersHEAD() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("HEAD /h HTTP/1.1\r\nHost: a\r\n\r\nGET /g HTTP/1.1\r\nHost: a\r\n\r\n")
            let head = try await client.answer(toHEAD: true)
            #expect(head.headers["content-length"] == "9")
            #expect(try await client.answer().body == "GET /g 0")
        }
    }

    @Test("closes after HTTP/1.0 unless the client asks to keep the connection")
    func speaksHTTP10() async throws {
        try await ListenerFixture().use { fixture in
            let staying = try await fixture.connect()
            try await staying.send("GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            #expect(try await staying.answer().headers["connection"] == "keep-alive")
            try await staying.send("GET /s HTTP/1.0\r\n\r\n")
            #expect(try await staying.answer().headers["connection"] == "close")
            try await staying.waitForEnd()
        }
    }

    @Test("honours Connection: close")
    func closesOnRequest() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(try await client.answer().headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test("lets the handler end the connection with its answer")
    func handlerCloses() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /close HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test("answers Expect: 100-continue with 100, but not when it refuses the request")
    func expectContinue() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            let head = "HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
            try await client.send("POST /e \(head)")
            #expect(try await client.answer().status == 100)
            try await client.send("abc")
            #expect(try await client.answer().body == "POST /e 3")
            try await client.send("POST /forbidden \(head)")
            let refused = try await client.answer()
            #expect(refused.status == 403)
            #expect(refused.headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test("refuses after the head and before the body, and keeps the connection for a small body")
    func refusesEarly() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
            #expect(try await client.answer().status == 403)
            try await client.send("bodyGET /after HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().body == "GET /after 0")
            #expect(fixture.handler.answered.current == 1)
        }
    }

    @Test(
        "closes instead of reading a large or chunked body that it refuses",
        arguments: [
            "Content-Length: 1000000", "Transfer-Encoding: chunked",
        ])
    func refusesWithoutDraining(framing: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /forbidden HTTP/1.1\r\nHost: a\r\n\(framing)\r\n\r\n")
            let answer = try await client.answer()
            #expect(answer.status == 403)
            #expect(answer.headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test("answers a client that has finished sending")
    func answersHalfClosed() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
            try await client.finishSending()
            try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == 1 }
            fixture.handler.latch.open()
            #expect(try await client.answer().body == "POST /held 2")
            try await client.waitForEnd()
        }
    }

    @Test("passes path and query to the handler decoded")
    func decodesTarget() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET http://any.host/a%20b?x=1%2B1&y=a+b&z HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().body == "GET /a b 0 x=1+1 y=a b z=")
        }
    }

    @Test(
        "requires one Host with a host and at most a port (RFC 9112 §3.2)",
        arguments: [
            "", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: /run/p.sock\r\n", "Host: a:http\r\n",
            "Host: user@a\r\n",
            "Host: a:1:2\r\n", "Host: [::1\r\n", "Host: []\r\n", "Host: [::1]a\r\n", "Host: a%zz\r\n", "Host: é\r\n",
        ])
    func refusesHost(fields: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /h HTTP/1.1\r\n\(fields)\r\n")
            let answer = try await client.answer()
            #expect(answer.status == 400)
            #expect(answer.body.contains("malformed_request"))
            try await client.waitForEnd()
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test(
        "serves every well-formed Host, requires none in HTTP/1.0, and ignores white space after a value")
    func takesHost() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            let hosts = ["", "a", "A_b.example:", "127.0.0.1:80", "[::1]:8443", "[fe80::1%25eth0]", "a%41", "a \t"]
            for host in hosts {
                try await client.send("POST /h HTTP/1.1\r\nHost: \(host)\r\nContent-Length: 2 \r\n\r\nhi")
                #expect(try await client.answer().body == "POST /h 2", "\(host)")
            }
            try await client.send("GET /h HTTP/1.0\r\n\r\n")
            #expect(try await client.answer().status == 200)
        }
    }

    @Test("serves a head of 16 KiB, in one field or in 250")
    func takesLargeHeads() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            let many = String(repeating: "A: \(String(repeating: "a", count: 60))\r\n", count: 250)
            for fields in ["A: \(String(repeating: "a", count: 16_000))\r\n", many] {
                try await client.send("GET /l HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
                #expect(try await client.answer().status == 200)
            }
        }
    }

    @Test("passes the media type to the handler without its parameters")
    func readsMediaType() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send(
                "POST /type HTTP/1.1\r\nHost: a\r\nContent-Type: Application/JSON ; charset=utf-8\r\n"
                    + "Content-Length: 0\r\n\r\n")
            #expect(try await client.answer().body == "POST /type 0application/json")
        }
    }
}
