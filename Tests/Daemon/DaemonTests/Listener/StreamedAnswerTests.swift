import Foundation
import Locks
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Streamed answers")
struct StreamedAnswerTests {
    private static let get = "GET /s HTTP/1.1\r\nHost: a\r\n\r\n"

    private struct ProducerFailed: Error {}

    private static func stream(_ pieces: [String], length: Int? = nil, fails: Bool = false) -> BodyStream {
        BodyStream(length: length) { writer in
            for piece in pieces { try await writer.write(Array(piece.utf8)) }
            if fails { throw ProducerFailed() }
        }
    }

    /// Splits a response into its head and the rest.
    private static func split(_ text: String) throws -> (head: String, body: String) {
        let end = try #require(text.range(of: "\r\n\r\n"))
        return (String(text[..<end.lowerBound]), String(text[end.upperBound...]))
    }

    @Test("sends a body of unknown length in chunks, and keeps the connection")
    func unknownLength() async throws {
        try await ListenerFixture(streams: ["/s": Self.stream(["abc", "", "defghijklmnopqrstu"])]).use { fixture in
            let client = try await fixture.connect()
            try await client.send(Self.get + "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            let (head, rest) = try Self.split(try await client.everything())
            #expect(head.contains("\r\nTransfer-Encoding: chunked\r\n"))
            #expect(!head.contains("Content-Length"))
            #expect(rest.hasPrefix("3\r\nabc\r\n12\r\ndefghijklmnopqrstu\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"))
            #expect(rest.hasSuffix("GET /last 0"))
        }
    }

    @Test("frames a body of known length by its length, and keeps the connection")
    func knownLength() async throws {
        try await ListenerFixture(streams: ["/s": Self.stream(["abc", "def"], length: 6)]).use { fixture in
            let client = try await fixture.connect()
            try await client.send(Self.get)
            let answer = try await client.answer()
            #expect(answer.headers["content-length"] == "6")
            #expect(answer.headers["transfer-encoding"] == nil)
            #expect(answer.body == "abcdef")
            try await client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer().body == "GET /next 0")
        }
    }

    @Test("ends the body with the connection in HTTP/1.0, without chunks")
    func endsWithConnection() async throws {
        try await ListenerFixture(streams: ["/s": Self.stream(["abc", "def"])]).use { fixture in
            let client = try await fixture.connect()
            try await client.send("GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            let (head, body) = try Self.split(try await client.everything())
            #expect(head.hasSuffix("\r\nConnection: close"))
            #expect(!head.contains("Transfer-Encoding"))
            #expect(body == "abcdef")
        }
    }

    @Test("answers HEAD with the head alone, and never makes the body")
    func answersHEAD() async throws {
        let made = Shared(0)
        let abandoned = Shared(0)
        let stream = BodyStream(
            ended: { end in if case .abandoned = end { abandoned.increment() } },
            produce: { _ in made.increment() })
        try await ListenerFixture(streams: ["/s": stream]).use { fixture in
            let client = try await fixture.connect()
            try await client.send("HEAD /s HTTP/1.1\r\nHost: a\r\n\r\nGET /g HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try await client.answer(toHEAD: true).headers["transfer-encoding"] == "chunked")
            #expect(try await client.answer().body == "GET /g 0")
            #expect(made.current == 0)
            #expect(abandoned.current == 1)
        }
    }

    @Test("breaks the connection without a last chunk if the body fails")
    func failingBody() async throws {
        try await ListenerFixture(streams: ["/s": Self.stream(["abc"], fails: true)]).use { fixture in
            let client = try await fixture.connect()
            try await client.send(Self.get)
            #expect(try Self.split(try await client.everything()).body == "3\r\nabc\r\n")
        }
    }

    @Test(
        "breaks the connection if the body is shorter or longer than announced", arguments: ["", "def"])
    func wrongLength(second: String) async throws {
        // The head announces five bytes, but the body has three or six.
        try await ListenerFixture(streams: ["/s": Self.stream(["abc", second], length: 5)]).use { fixture in
            let client = try await fixture.connect()
            try await client.send(Self.get + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try Self.split(try await client.everything()).body == "abc")
        }
    }

    /// A body that is far larger than any socket buffer.
    private static func large(_ written: Shared<Int>, ended: Shared<[String]>) -> BodyStream {
        let piece = [UInt8](repeating: UInt8(ascii: "x"), count: 16_384)
        return BodyStream(
            ended: { end in
                let word =
                    switch end {
                    case .whole: "whole"
                    case .abandoned: "abandoned"
                    case .broken(BodyWriter.Failure.connectionEnded): "connection ended"
                    case .broken: "broken"
                    }
                ended.change { $0.append(word) }
            },
            produce: { writer in
                for _ in 0..<4096 {
                    try await writer.write(piece)
                    written.increment()
                }
            })
    }

    @Test("buffers only what fits into the socket of a peer that reads nothing, and closes the connection once idle")
    func stalledReader() async throws {
        let written = Shared(0)
        let ended = Shared([String]())
        let streams = ["/s": Self.large(written, ended: ended)]
        try await ListenerFixture(idle: .seconds(5), streams: streams).use { fixture in
            let client = try await RawConnection(fixture.socket, reads: false, staysOpen: true)
            try await client.send(Self.get)
            try await wait(for: "the first pieces") { written.current > 0 }
            try await wait(for: "another connection to be served") {
                // On a busy machine, the listener may close this connection as idle before the request is sent. The
                // wait then tries again.
                let other = try await fixture.connect()
                try? await other.send("GET /o HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return try await other.everything().hasSuffix("GET /o 0")
            }
            try await wait(for: "the end of the stream") { !ended.current.isEmpty }
            #expect(ended.current == ["connection ended"])
            // 128 pieces have 2 MiB. That is more than a Unix socket buffers (about 200 KiB), and far less than the
            // body's 64 MiB.
            #expect(written.current < 128)
            try await wait(for: "the connection to be closed") { client.isClosed }
        }
    }

    @Test("sends the whole body to a peer that pauses and resumes")
    func pausingReader() async throws {
        let written = Shared(0)
        let ended = Shared([String]())
        try await ListenerFixture(streams: ["/s": Self.large(written, ended: ended)]).use { fixture in
            let client = try await RawConnection(fixture.socket, reads: false, staysOpen: true)
            try await client.send(Self.get)
            try await wait(for: "the first pieces") { written.current > 0 }
            try await Task.sleep(for: .milliseconds(200))
            #expect(written.current < 128)
            try await client.startReading()
            try await wait(for: "the end of the stream") { !ended.current.isEmpty }
            #expect(ended.current == ["whole"])
            #expect(written.current == 4096)
        }
    }

    /// A body that sends one piece, and then nothing until the stream is ended.
    private static func endless(_ ended: Shared<[String]>) -> BodyStream {
        BodyStream(
            isEndless: true,
            ended: { end in
                if case .whole = end {
                    ended.change { $0.append("whole") }
                } else {
                    ended.change { $0.append("other") }
                }
            },
            produce: { writer in
                try await writer.write(Array("abc".utf8))
                try await Task.sleep(for: .seconds(3600))
            })
    }

    @Test("keeps a stream without data open, and ends it when its peer leaves")
    func silentStream() async throws {
        let ended = Shared([String]())
        try await ListenerFixture(idle: .seconds(2), streams: ["/s": Self.endless(ended)]).use { fixture in
            let client = try await fixture.connect()
            try await client.send(Self.get)
            try await wait(for: "the first chunk") { client.text.hasSuffix("abc\r\n") }
            // This idle connection began after the stream. It is closed, while the stream continues.
            let idle = try await fixture.connect()
            try await idle.waitForEnd()
            #expect(!client.isClosed)
            #expect(ended.current.isEmpty)
            await client.close()
            try await wait(for: "the end of the stream") { !ended.current.isEmpty }
        }
    }

    @Test("ends an endless stream with its last chunk when the daemon stops")
    func stopsEndless() async throws {
        let ended = Shared([String]())
        let fixture = try await ListenerFixture(streams: ["/s": Self.endless(ended)])
        let client = try await fixture.connect()
        try await client.send(Self.get)
        try await wait(for: "the first chunk") { client.text.hasSuffix("abc\r\n") }
        await fixture.listener.shutdown(grace: .seconds(30))
        #expect(try Self.split(try await client.everything()).body == "3\r\nabc\r\n0\r\n\r\n")
        #expect(ended.current == ["whole"])
    }

    @Test("finishes a finite stream when the daemon stops")
    func finishesFinite() async throws {
        let latch = Latch(isOpen: false)
        let stream = BodyStream { writer in
            try await writer.write(Array("abc".utf8))
            await latch.pass()
            try await writer.write(Array("def".utf8))
        }
        let fixture = try await ListenerFixture(streams: ["/s": stream])
        let client = try await fixture.connect()
        try await client.send(Self.get)
        try await wait(for: "the first chunk") { latch.waiting == 1 }
        let shutdown = Task { await fixture.listener.shutdown(grace: .seconds(30)) }
        try await wait(for: "the socket file to go") { !FileManager.default.fileExists(atPath: fixture.socket) }
        latch.open()
        await shutdown.value
        #expect(try Self.split(try await client.everything()).body == "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")
    }

    @Test("ends a stream without its last chunk once the time to stop is over")
    func cutsAtGrace() async throws {
        let ended = Shared([String]())
        let stream = BodyStream(
            ended: { end in
                if case .broken(is CancellationError) = end { ended.change { $0.append("cancelled") } }
            },
            produce: { writer in
                try await writer.write(Array("abc".utf8))
                try await Task.sleep(for: .seconds(3600))
            })
        let fixture = try await ListenerFixture(streams: ["/s": stream])
        let client = try await fixture.connect()
        try await client.send(Self.get)
        try await wait(for: "the first chunk") { client.text.hasSuffix("abc\r\n") }
        await fixture.listener.shutdown(grace: .milliseconds(100))
        #expect(try Self.split(try await client.everything()).body == "3\r\nabc\r\n")
        try await wait(for: "the end of the stream") { ended.current == ["cancelled"] }
    }
}
