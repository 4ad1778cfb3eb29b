import Foundation
import NIOCore
import NIOPosix
import Refusals
import TestSupport
import Testing

@testable import DaemonAPI

@Suite("Unix socket client with streamed answers")
struct StreamedAnswerTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n\r\n"

    private func text(of body: AnswerBody) async throws -> String {
        var bytes: [UInt8] = []
        for try await piece in body {
            #expect(!piece.isEmpty)
            bytes += piece
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("Returns the head first, and then the chunked body piece by piece")
    func chunked() async throws {
        let server = try await ScriptedServer(Self.head + "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        let answer = try await server.client().stream(.get("/v1/audit/export?format=jsonl"))
        #expect(answer.status == 200)
        #expect(answer.header("content-type") == "application/jsonl")
        #expect(answer.refusal == nil)
        #expect(try await text(of: answer.body) == "abcdefg")
        let request = try await server.received("\r\n\r\n")
        #expect(request.hasPrefix("GET /v1/audit/export?format=jsonl HTTP/1.1\r\n"))
        #expect(request.contains("\r\nAccept: */*\r\n"))
        try await server.stop()
    }

    @Test("Sends a body, and returns an answer that has a Content-Length")
    func counted() async throws {
        let server = try await ScriptedServer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
        let answer = try await server.client().stream(.post("/v1/ledger/backup", body: Array("{}".utf8)))
        #expect(answer.header("Content-Length") == "3")
        #expect(try await text(of: answer.body) == "abc")
        #expect(try await server.received("{}").contains("\r\nContent-Type: application/json\r\n"))
        try await server.stop()
    }

    @Test(
        "Throws if the connection ends within the body, chunked or with a length",
        arguments: [head + "3\r\nabc\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc"])
    func cutShort(script: String) async throws {
        let server = try await ScriptedServer(script)
        let answer = try await server.client().stream(.get("/"))
        var pieces = answer.body.makeAsyncIterator()
        #expect(try await pieces.next() == Array("abc".utf8))
        await #expect(throws: UnixSocketClientError.cutShort(path: server.path)) { _ = try await pieces.next() }
        try await server.stop()
    }

    @Test("Reads a refusal completely before it returns")
    func refusal() async throws {
        let body = #"{"code":"ledger_unavailable","message":"No."}"#
        let server = try await ScriptedServer(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        let answer = try await server.client().stream(.get("/v1/audit/export"))
        #expect(!answer.isSuccess)
        #expect(answer.refusal?.refusalCode == .ledgerUnavailable)
        #expect(try await text(of: answer.body) == body)
        try await server.stop()
    }

    @Test("Throws when a refusal exceeds the size limit")
    func largeRefusal() async throws {
        let server = try await ScriptedServer(
            "HTTP/1.1 500 No\r\nContent-Length: 2000\r\n\r\n" + String(repeating: "x", count: 2000))
        await #expect(throws: UnixSocketClientError.answerTooLarge(limit: 1000)) {
            _ = try await server.client(maximumAnswerBytes: 1000).stream(.get("/"))
        }
        try await server.stop()
    }

    @Test("Throws at the deadline if no head arrives")
    func deadline() async throws {
        let server = try await ScriptedServer("", closes: false)
        let limit = Duration.milliseconds(200)
        await #expect(throws: UnixSocketClientError.deadlineExceeded(path: server.path, after: limit)) {
            _ = try await server.client(deadline: limit).stream(.get("/"))
        }
        try await server.stop()
    }

    @Test("Throws when a body stalls for the idle time, after the deadline for the head")
    func silence() async throws {
        let server = try await ScriptedServer(Self.head + "3\r\nabc\r\n", closes: false)
        let idle = Duration.seconds(5)
        let answer = try await server.client(deadline: .seconds(4)).stream(.get("/"), idle: idle)
        var pieces = answer.body.makeAsyncIterator()
        #expect(try await pieces.next() == Array("abc".utf8))
        await #expect(throws: UnixSocketClientError.silent(path: server.path, for: idle)) {
            _ = try await pieces.next()
        }
        try await server.stop()
    }

    @Test("Does not count the reader's pauses as idle time, and returns the whole body")
    func pausingReader() async throws {
        let server = try await FloodingServer(pieces: 1024)
        let client = UnixSocketClient(path: server.path)
        let answer = try await client.stream(.get("/"), idle: .seconds(5))
        try await Task.sleep(for: .seconds(6))
        // The server has sent only part of the body, which fits into the sockets' and the client's buffers.
        #expect(server.sent.current < 256)
        var count = 0
        for try await piece in answer.body { count += piece.count }
        #expect(count == 1024 * FloodingServer.pieceBytes)
        try await server.stop()
    }

    @Test("Closes the connection when the reader discards the body")
    func dropped() async throws {
        let server = try await FloodingServer(pieces: 4096)
        do {
            let answer = try await UnixSocketClient(path: server.path).stream(.get("/"))
            var pieces = answer.body.makeAsyncIterator()
            _ = try await pieces.next()
        }
        try await wait(for: "the connection's end") { server.closed.current == 1 }
        #expect(server.sent.current < 1024)
        try await server.stop()
    }

    @Test("Throws when the reading task is cancelled, instead of ending the body")
    func cancelled() async throws {
        let server = try await ScriptedServer(Self.head + "3\r\nabc\r\n", closes: false)
        let answer = try await server.client().stream(.get("/"), idle: nil)
        let task = Task {
            for try await _ in answer.body {}
        }
        try await Task.sleep(for: .milliseconds(50))
        task.cancel()
        await #expect(throws: UnixSocketClientError.cutShort(path: server.path)) { try await task.value }
        try await server.stop()
    }

    @Test("Throws the same error as a request without streaming if no socket exists")
    func notThere() async throws {
        let missing = try FreshDirectory().path("missing.sock")
        await #expect(throws: UnixSocketClientError.notThere(path: missing)) {
            _ = try await UnixSocketClient(path: missing).stream(.get("/"))
        }
    }
}

/// A server that sends a body of many pieces as fast as the client reads them.
private final class FloodingServer: Sendable {
    static let pieceBytes = 16_384
    let sent = Shared(0)
    let closed = Shared(0)
    let path: String
    private let directory: FreshDirectory
    private let channel: any Channel

    init(pieces: Int) async throws {
        directory = try FreshDirectory()
        path = directory.path("s.sock")
        let (sent, closed) = (sent, closed)
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.closeFuture.whenComplete { _ in closed.increment() }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Flood(pieces: pieces, sent: sent))
                }
            }
            .bind(unixDomainSocketPath: path).get()
    }

    func stop() async throws { try await channel.close() }

    private final class Flood: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let pieces: Int
        private let sent: Shared<Int>
        init(pieces: Int, sent: Shared<Int>) {
            self.pieces = pieces
            self.sent = sent
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let length = pieces * FloodingServer.pieceBytes
            let head = "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n"
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: head)), promise: nil)
            send(pieces, context)
        }

        private func send(_ left: Int, _ context: ChannelHandlerContext) {
            guard left > 0 else { return }
            let piece = ByteBuffer(repeating: UInt8(ascii: "x"), count: FloodingServer.pieceBytes)
            let connection = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.writeAndFlush(wrapOutboundOut(piece)).whenSuccess { _ in
                let (flood, context) = connection.value
                flood.sent.increment()
                flood.send(left - 1, context)
            }
        }
    }
}
