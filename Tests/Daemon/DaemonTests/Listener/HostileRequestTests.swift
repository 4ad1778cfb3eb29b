import Foundation
import NIOCore
import TestSupport
import Testing

@testable import Daemon

@Suite("Wrong, oversized and slow requests")
struct HostileRequestTests {
    private static func nonsense(_ count: Int) -> String {
        // Printable, deterministic bytes that are not HTTP.
        let bytes = (0..<count).map { (index: Int) -> UInt8 in
            let spread = index * 31 + index / 7
            return UInt8(33 + spread % 90)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test(
        "answers input that is not HTTP with a bare 400, and closes",
        arguments: [
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}", "hello\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n", "{\"token\": 1}\r\n",
            "GET / HTTP/1.1\r\nNo colon\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n",
            "GET / HTTP/1.1\r\nA: \u{1}\r\n\r\n",
        ])
    func refusesGarbage(bytes: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send(bytes)
            let answer = try await client.answer()
            #expect(answer.status == 400)
            #expect(answer.body.isEmpty)
            #expect(answer.headers["connection"] == "close")
            try await client.waitForEnd()
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test("refuses 64 KiB of random input, and serves others meanwhile")
    func refusesNonsense() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            client.sendLossy(Self.nonsense(65_536))
            let other = try await fixture.connect()
            try await other.send("GET /o HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await other.answer().body == "GET /o 0")
            #expect(try await client.answer().status == 400)
            try await client.waitForEnd()
        }
    }

    @Test(
        "refuses a message of ambiguous length",
        arguments: [
            "Content-Length: 3\r\nContent-Length: 3", "Content-Length: 3\r\nContent-Length: 4", "Content-Length: 3, 3",
            "Content-Length: 3\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 3",
            "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Content-Length: -1", "Content-Length: +3",
            "Content-Length: 0x3", "Content-Length: 99999999999999999999999", "Content-Length: ",
        ])
    func refusesSmuggling(framing: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send(
                "POST /x HTTP/1.1\r\nHost: a\r\n\(framing)\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n")
            #expect(try await client.answer().status == 400)
            try await client.waitForEnd()
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test("sends one answer to a request that is refused after its head and interrupted in its body")
    func refusesOnce() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nabc")
            #expect(try await client.answer().status == 403)
            try await client.finishSending()
            try await client.waitForEnd()
            #expect(client.text.isEmpty)
        }
    }

    @Test("refuses chunked encoding in HTTP/1.0")
    func refusesChunkedHTTP10() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            #expect(try await client.answer().status == 400)
        }
    }

    @Test("refuses a chunk size that is not a number")
    func refusesBadChunk() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send(
                "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n")
            #expect(try await client.answer().status == 400)
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test("answers a good request that is followed by garbage")
    func answersBeforeGarbage() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /good HTTP/1.1\r\nHost: a\r\n\r\n\u{0}\u{1}garbage\r\n\r\n")
            #expect(try await client.answer().body == "GET /good 0")
            #expect(try await client.answer().status == 400)
            try await client.waitForEnd()
        }
    }

    @Test("refuses a declared length over the limit before the body, and closes the connection")
    func refusesLargeLength() async throws {
        try await ListenerFixture(bodyLimit: 1_000).use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n")
            let answer = try await client.answer()
            #expect(answer.status == 413)
            #expect(answer.body.contains("\"request_too_large\""))
            #expect(answer.headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test("lets a client read its response 413 even if it keeps sending")
    func lingersForTheAnswer() async throws {
        try await ListenerFixture(bodyLimit: 1_000).use { fixture in
            let curl = try await Curl.request(
                "/x", socket: fixture.socket, body: [UInt8](repeating: 0x20, count: 600_000))
            #expect(curl.status == 413)
            #expect(curl.code == "request_too_large")
        }
    }

    @Test("refuses a chunked body at the chunk that exceeds the limit")
    func refusesLargeChunks() async throws {
        try await ListenerFixture(bodyLimit: 10).use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            try await client.send("a\r\n0123456789\r\n1\r\nX\r\n")
            #expect(try await client.answer().status == 413)
            try await client.waitForEnd()
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test(
        "refuses a chunk whose size exceeds the limit before its bytes arrive",
        arguments: ["b", "7fffffffffffffff"])
    func refusesLargeChunkSize(size: String) async throws {
        try await ListenerFixture(bodyLimit: 10).use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\(size)\r\n")
            #expect(try await client.answer().status == 413)
            try await client.waitForEnd()
        }
    }

    @Test("refuses chunk extensions that are larger than the body")
    func refusesHeavyChunks() async throws {
        try await ListenerFixture(bodyLimit: 100).use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            let chunk = "1;\(String(repeating: "e", count: 4_000))=1\r\nx\r\n"
            client.sendLossy(String(repeating: chunk, count: 30))
            #expect(try await client.answer().status == 413)
            try await client.waitForEnd()
        }
    }

    enum LargeHead: CaseIterable {
        case oneField, allFields, manyFields, target

        var text: String {
            let fields =
                switch self {
                case .oneField: "A: \(String(repeating: "a", count: 17_000))\r\n"
                case .allFields: String(repeating: "A: \(String(repeating: "a", count: 1_000))\r\n", count: 20)
                case .manyFields: String(repeating: "A: b\r\n", count: 257)
                case .target: ""
                }
            let target = self == .target ? String(repeating: "a", count: 20_000) : ""
            return "GET /\(target) HTTP/1.1\r\nHost: a\r\n\(fields)\r\n"
        }
    }

    @Test("refuses a head over its limits with request_too_large", arguments: LargeHead.allCases)
    func refusesLargeHead(head: LargeHead) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            client.sendLossy(head.text)
            let answer = try await client.answer()
            #expect(answer.status == 413)
            #expect(answer.body.contains("request_too_large"))
            try await client.waitForEnd()
        }
    }

    @Test(
        "refuses a target that cannot be decoded with malformed_request",
        arguments: [
            "/%", "/%2", "/%zz", "/%ff", "/%00", "/a?x=%0a", "/a?x=1&x=2",
        ])
    func refusesTarget(target: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = try await client.answer()
            #expect(answer.status == 400)
            #expect(answer.body.contains("malformed_request"))
            #expect(fixture.handler.answered.current == 0)
        }
    }

    @Test(
        "answers an upgrade and CONNECT like other requests, and closes the connection",
        arguments: [
            "GET /u HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nbytes",
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\nbytes",
        ])
    func endsUpgrades(request: String) async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send(request)
            #expect(try await client.answer().headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test(
        "answers a slow sender with 408, and closes",
        arguments: [
            "P", "POST /s HTTP/1.1\r\nHost: a\r\n", "POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
            "POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        ])
    func timesOut(beginning: String) async throws {
        try await ListenerFixture(request: .milliseconds(200)).use { fixture in
            let client = try await fixture.connect()
            try await client.send(beginning)
            let answer = try await client.answer()
            #expect(answer.status == 408)
            #expect(answer.body.contains("request_timeout") && answer.body.contains("within 200 ms"))
            #expect(answer.headers["connection"] == "close")
            try await client.waitForEnd()
        }
    }

    @Test(
        "applies the time limit to a request even if its beginning arrived with the end of another one",
        arguments: [
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab\n\nc",
            "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: b\r\n\r\n",
            "POST /forbidden HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        ],
        ["G", "GET /b HTTP/1.1\r\nHost: a\r\n"])
    func pipelinedBeginningTimesOut(whole: String, beginning: String) async throws {
        try await ListenerFixture(request: .milliseconds(200)).use { fixture in
            let client = try await fixture.connect()
            try await client.send(whole + beginning)
            #expect(try await client.answer().status == (whole.contains("forbidden") ? 403 : 200))
            let answer = try await client.answer()
            #expect(answer.status == 408)
            #expect(answer.body.contains("request_timeout"))
            try await client.waitForEnd()
        }
    }

    @Test("ignores empty lines between requests: the connection is idle, and serves on")
    func ignoresEmptyLines() async throws {
        try await ListenerFixture(request: .milliseconds(200), idle: .seconds(6)).use { fixture in
            let client = try await fixture.connect()
            try await client.send("\r\n\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r")
            #expect(try await client.answer().body == "GET /a 0")
            try await client.send("\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n\r\n")
            #expect(try await client.answer().body == "GET /b 0")
            // The listener closes the idle connection without an answer such as 408.
            try await client.waitForEnd()
            #expect(client.text.isEmpty)
        }
    }

    @Test("answers requests in one piece and in single bytes alike")
    func splitAnywhere() async throws {
        let requests =
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n\n\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"
            + "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n\n\r\n\r\n\n\r\n0\r\nT: u\r\n\r\n"
            + "GET /d HTTP/1.1\r\nHost: a\r\n\r\n"
        try await ListenerFixture(request: .seconds(600)).use { fixture in
            for pieces in [[requests], requests.utf8.map { String(UnicodeScalar($0)) }] {
                let client = try await fixture.connect()
                for piece in pieces { try await client.send(piece) }
                for body in ["POST /a 4", "GET /b 0", "POST /c 6", "GET /d 0"] {
                    #expect(try await client.answer().body == body)
                }
            }
        }
    }

    @Test("answers a good request that is followed by empty lines and garbage")
    func answersBeforeGarbageInPieces() async throws {
        try await ListenerFixture().use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n\u{16}\u{3}\r\n\r\nmore\r\n\r\n")
            try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == 1 }
            fixture.handler.latch.open()
            #expect(try await client.answer().body == "GET /held 0")
            #expect(try await client.answer().status == 400)
            try await client.waitForEnd()
        }
    }

    @Test("does not extend a request's time limit when single bytes arrive")
    func drippingTimesOut() async throws {
        try await ListenerFixture(request: .milliseconds(300)).use { fixture in
            let client = try await fixture.connect()
            try await client.send("POST /s HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n")
            // The head is complete, so each of these bytes belongs to the request's body.
            let dripping = Task {
                while !Task.isCancelled {
                    client.sendLossy("x")
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            defer { dripping.cancel() }
            #expect(try await client.answer().status == 408)
        }
    }

    @Test("does not count the handler's time towards the request's time limit")
    func answeringIsNotTimed() async throws {
        try await ListenerFixture(request: .milliseconds(100)).use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
            try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == 1 }
            try await Task.sleep(for: .milliseconds(400))
            fixture.handler.latch.open()
            #expect(try await client.answer().body == "GET /held 0")
        }
    }

    @Test("closes an idle connection silently, and one in use no earlier than the idle time after its last request")
    func closesIdle() async throws {
        // Only the least times are checked. A slow machine makes them longer.
        let idle = Duration.seconds(2)
        try await ListenerFixture(idle: .seconds(2)).use { fixture in
            let start = ContinuousClock.now
            let silent = try await fixture.connect()
            let used = try await fixture.connect()
            var last = start
            for _ in 0..<4 where !used.isClosed {
                let sent = ContinuousClock.now
                try? await used.send("GET /k HTTP/1.1\r\nHost: a\r\n\r\n")
                try await wait(for: "an answer") { used.isClosed || used.text.contains("HTTP/1.1") }
                // On a machine that paused for longer than the idle time, even the used connection was idle.
                guard used.text.contains("HTTP/1.1") else { break }
                _ = try await used.answer()
                last = sent
                try await Task.sleep(for: idle / 4)
            }
            try await used.waitForEnd()
            #expect(last.duration(to: .now) >= idle)
            try await silent.waitForEnd()
            #expect(start.duration(to: .now) >= idle)
            #expect(silent.text.isEmpty)
        }
    }

    @Test("frees all resources of a peer that leaves during its answer")
    func survivesDeparture() async throws {
        try await ListenerFixture().use { fixture in
            for number in 1...10 {
                let client = try await fixture.connect()
                try await client.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
                // The client closes only after its request is under way, because a connection that is closed earlier is
                // never accepted.
                try await wait(for: "the request to be under way") { fixture.handler.latch.waiting == number }
                await client.close()
            }
            fixture.handler.latch.open()
            try await wait(for: "the connections to go") { fixture.instruments.connections.value() == 0 }
        }
    }
}
