import Foundation
import NIOCore
import NIOPosix
import OutgoingConnections
import Payments
import SecretMemory
import TestSupport
import Testing

@testable import Processors

func text(_ secret: borrowing SecretBytes) -> String {
    unsafe secret.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
}

extension ProcessorExchange {
    /// Submits the body "payment", and returns the outcome as text, such as `200 ok` or `not sent: too_late`.
    func post(
        before deadline: ContinuousClock.Instant, late: @escaping @Sendable (String) -> Void = { _ in }
    ) async -> String {
        let outcome = await submit(
            to: "/p", body: SecretBytes(copying: Array("payment".utf8)), before: deadline,
            late: { late(Self.text($0)) },
            read: { answer in
                let text = "\(answer.status) \(String(decoding: answer.body, as: UTF8.self))"
                return .answered(ProcessorAnswer(.authorized, PaymentOutcome(reason: text)))
            })
        return Self.text(outcome)
    }

    private static func text(_ outcome: SubmissionOutcome) -> String {
        switch outcome {
        case .answered(let answer): answer.outcome.reason ?? ""
        case .notSent(let fault): "not sent: \(fault.rawValue)"
        case .unknown(let fault): "unknown: \(fault.rawValue)"
        }
    }
}

/// Requests to a payment processor and their outcomes: an answer, certainly not sent, or unknown.
@Suite struct ProcessorExchangeTests {
    /// Sends `answer`, unless it is empty, to each complete request. Then closes the connection if `closes` is true.
    private final class Answerer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let answer: String
        private let heard: Shared<String>
        private let closes: Bool

        init(_ answer: String, _ heard: Shared<String>, closes: Bool) {
            self.answer = answer
            self.heard = heard
            self.closes = closes
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let text = String(buffer: unwrapInboundIn(data))
            heard.change { $0 += text }
            guard heard.current.hasSuffix("payment") else { return }
            if !answer.isEmpty {
                context.writeAndFlush(NIOAny(ByteBuffer(string: answer)), promise: nil)
            }
            if closes { context.close(promise: nil) }
        }
    }

    private struct Peer {
        let directory: FreshDirectory
        let channel: any Channel
        let heard = Shared("")

        init(_ answer: String, closes: Bool = true) async throws {
            directory = try FreshDirectory()
            let heard = heard
            channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .childChannelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(Answerer(answer, heard, closes: closes))
                    }
                }
                .bind(unixDomainSocketPath: directory.path("s")).get()
        }

        func post(within limit: Duration = .seconds(60)) async throws -> String {
            let endpoint = try #require(ProcessorEndpoint("unix:\(directory.path("s"))"))
            let exchange = try ProcessorExchange(to: endpoint, headers: [(name: "X-Key", value: "k")])
            let outcome = await exchange.post(before: .now + limit)
            try? await channel.close()
            return outcome
        }
    }

    @Test(
        "reports a complete answer, and otherwise the fault",
        arguments: [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200 ok"),
            ("HTTP/1.1 302 Found\r\nLocation: http://evil.example\r\nContent-Length: 0\r\n\r\n", "302 "),
            ("", "unknown: connection_lost"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "unknown: connection_lost"),
            // Without a length, a truncated answer would look complete.
            ("HTTP/1.1 200 OK\r\n\r\nok", "unknown: not_http"), ("no HTTP at all\r\n\r\n", "unknown: not_http"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + String(repeating: "x", count: 100_000),
                "unknown: answer_too_large"
            ),
        ])
    func answers(answer: String, expected: String) async throws {
        let peer = try await Peer(answer)
        #expect(try await peer.post() == expected)
        #expect(peer.heard.current.hasPrefix("POST /p HTTP/1.1\r\n"))
        #expect(peer.heard.current.contains("X-Key: k\r\n"))
    }

    @Test(
        "stops reading an endless answer",
        arguments: [
            ("HTTP/1.1 102 Processing\r\n\r\n", ""),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "extension=of-a-chunk;"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: trailer\r\n"),
        ])
    func endless(first: String, more: String) async throws {
        let again = String(repeating: more.isEmpty ? first : more, count: 20_000)
        let peer = try await Peer(first + again, closes: false)
        #expect(try await peer.post() == "unknown: answer_too_large")
    }

    @Test("does not delay requests to one processor while the lookup of another one's name hangs")
    func hangingName() async throws {
        let hang = Hang()
        hang.begin()
        let names = HostNames { name in
            if name == "hangs.example" { hang.pass() }
            return [try SocketAddress(ipAddress: "127.0.0.1", port: 0)]
        }
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        Answerer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Shared(""), closes: true))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(server.localAddress?.port)
        @Sendable func send(to host: String, within limit: Duration) async throws -> String {
            var exchange = try ProcessorExchange(
                to: ProcessorEndpoint(place: .loopback(host: host, port: port)))
            exchange.names = names
            return await exchange.post(before: .now + limit)
        }
        // Sixteen connections wait for the lookup of hangs.example, so that every event loop has at least one.
        let waiting = (0..<16).map { _ in Begun { try? await send(to: "hangs.example", within: .seconds(120)) } }
        try await hang.waitUntilBlocking()
        for _ in 0..<16 {
            #expect(try await send(to: "other.example", within: .seconds(60)) == "200 ok")
        }
        #expect(waiting.allSatisfy { !$0.hasEnded })
        hang.end()
        for one in waiting { #expect(try await one.value() == "200 ok") }
        try await server.close()
    }

    @Test("waits for a silent processor until the deadline")
    func silent() async throws {
        let peer = try await Peer("", closes: false)
        #expect(try await peer.post(within: .milliseconds(300)) == "unknown: no_answer_in_time")
    }

    @Test("reports an answer that arrives after the deadline", arguments: ["ok", "cut short"])
    func late(ending: String) async throws {
        let (heard, said) = (Shared(""), Shared<(any Channel)?>(nil))
        let directory = try FreshDirectory()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                said.change { $0 = channel }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answerer("", heard, closes: false))
                }
            }
            .bind(unixDomainSocketPath: directory.path("s")).get()
        let exchange = try ProcessorExchange(to: #require(ProcessorEndpoint("unix:\(directory.path("s"))")))
        let late = Shared<[String]>([])
        let first = await exchange.post(before: .now + .milliseconds(500)) { text in late.change { $0.append(text) } }
        #expect(first == "unknown: no_answer_in_time" && late.current.isEmpty)
        let connection = try #require(said.current)
        let length = ending == "ok" ? 2 : 3
        try await connection.writeAndFlush(
            ByteBuffer(string: "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\nok"))
        if ending != "ok" { try await connection.close() }
        try await wait(for: "the late answer") { !late.current.isEmpty }
        #expect(late.current == [ending == "ok" ? "200 ok" : "unknown: connection_lost"])
        // The request was sent only once.
        #expect(heard.current.components(separatedBy: "POST ").count == 2)
        try await server.close()
    }

    @Test("sends each payment once to a host with several addresses, and never reports it as not sent")
    func severalAddresses() async throws {
        // In the first round, both addresses accept connections without answering. In the second round, one address
        // refuses connections.
        let heard = Shared<[Int]>([])
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Listener(heard))
                }
            }
        let first = try await bootstrap.bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(first.localAddress?.port)
        let second = try? await bootstrap.bind(host: "::1", port: port).get()
        for hasBoth in [true, false] {
            if !hasBoth { try? await second?.close() }
            heard.change { $0 = [] }
            var exchange = try ProcessorExchange(to: #require(ProcessorEndpoint("http://localhost:\(port)")))
            exchange.names = HostNames { _ in
                [try SocketAddress(ipAddress: "127.0.0.1", port: 0), try SocketAddress(ipAddress: "::1", port: 0)]
            }
            // Ten seconds are enough to connect 50 times on a busy machine; the test waits for all of them.
            let sending = exchange
            let results = await withTaskGroup(of: String.self) { group in
                for _ in 0..<50 {
                    group.addTask { await sending.post(before: .now + .seconds(10)) }
                }
                return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
            #expect(results == ["unknown: no_answer_in_time": 50])
            #expect(heard.current.count == 50)
        }
        try await first.close()
    }

    /// Counts complete requests, and answers none of them.
    private final class Listener: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let heard: Shared<[Int]>
        private var text = ""

        init(_ heard: Shared<[Int]>) { self.heard = heard }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            text += String(buffer: unwrapInboundIn(data))
            if text.hasSuffix("payment") { heard.change { $0.append(1) } }
        }
    }

    @Test("sends nothing after the deadline")
    func tooLate() async throws {
        let peer = try await Peer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        #expect(try await peer.post(within: .zero) == "not sent: too_late")
        #expect(peer.heard.current.isEmpty)
    }

    @Test("sends nothing to an address that refuses connections")
    func noServer() async throws {
        let directory = try FreshDirectory()
        let endpoint = try #require(ProcessorEndpoint("unix:\(directory.path("s"))"))
        #expect(
            try await ProcessorExchange(to: endpoint).post(before: .now + .seconds(60)) == "not sent: not_connected")
    }

    @Test("sends no byte of the payment to a peer that does not speak TLS")
    func noTLS() async throws {
        let heard = Shared("")
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Answerer("", heard, closes: true))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        let endpoint = try #require(ProcessorEndpoint("https://127.0.0.1:\(port)"))
        let outcome = try await ProcessorExchange(to: endpoint).post(before: .now + .milliseconds(500))
        try? await channel.close()
        #expect(outcome.hasPrefix("not sent: "))
        #expect(!heard.current.contains("payment"))
    }
}
