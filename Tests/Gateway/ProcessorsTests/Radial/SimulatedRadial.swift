import NIOCore
import NIOHTTP1
import NIOPosix
import TestSupport

@testable import Processors

/// An HTTP server on a Unix socket that simulates Radial's Payment Service, and keeps the requests that it receives.
final class SimulatedRadial: Sendable {
    /// The server's reaction to each request.
    enum Behaviour: Sendable {
        case answers(String, status: Int = 200)
        /// The server closes the connection without an answer.
        case closesAfterRequest
        /// The server closes the connection after this number of characters of the answer's body.
        case closesInAnswer(String, after: Int)
        /// The server sends no answer, and keeps the connection open.
        case silent
    }

    struct Request: Sendable {
        let method: String
        let target: String
        let headers: [String: String]
        let body: String
    }

    let directory: FreshDirectory
    let requests = Shared<[Request]>([])
    private let channel: any Channel

    init(_ behaviour: Behaviour) async throws {
        directory = try FreshDirectory()
        let requests = requests
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Answerer(behaviour, requests))
                }
            }
            .bind(unixDomainSocketPath: directory.path("radial")).get()
    }

    deinit { channel.close(promise: nil) }

    /// A processor that sends payments to this server, with a key in the header `apikey`.
    func processor(leastTime: Duration = RadialProcessor.leastTime) throws -> RadialProcessor {
        let endpoint = try requireEndpoint("unix:\(directory.path("radial"))")
        return RadialProcessor(
            try ProcessorExchange(to: endpoint, headers: [(name: "apikey", value: "k-1")]), leastTime: leastTime)
    }

    func stopListening() async throws { try await channel.close() }

    private func requireEndpoint(_ text: String) throws -> ProcessorEndpoint {
        guard let endpoint = ProcessorEndpoint(text) else {
            throw HarnessFailure(description: "no endpoint")
        }
        return endpoint
    }

    private final class Answerer: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart
        typealias OutboundOut = HTTPServerResponsePart

        private let behaviour: Behaviour
        private let requests: Shared<[Request]>
        private var head: HTTPRequestHead?
        private var body = ""

        init(_ behaviour: Behaviour, _ requests: Shared<[Request]>) {
            (self.behaviour, self.requests) = (behaviour, requests)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): self.head = head
            case .body(let part): body += String(buffer: part)
            case .end:
                guard let head else { return }
                let headers = Dictionary(
                    head.headers.map { ($0.name.lowercased(), $0.value) }, uniquingKeysWith: { first, _ in first })
                let request = Request(
                    method: head.method.rawValue, target: head.uri, headers: headers, body: body)
                requests.change { $0.append(request) }
                answer(context)
            }
        }

        private func answer(_ context: ChannelHandlerContext) {
            switch behaviour {
            case .silent: return
            case .closesAfterRequest: context.close(promise: nil)
            case .answers(let text, let status):
                write(text, of: text.utf8.count, status, context)
                context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
            case .closesInAnswer(let text, let count):
                write(String(text.prefix(count)), of: text.utf8.count, 200, context)
                context.flush()
                context.close(promise: nil)
            }
        }

        private func write(_ text: String, of length: Int, _ status: Int, _ context: ChannelHandlerContext) {
            let head = HTTPResponseHead(
                version: .http1_1, status: HTTPResponseStatus(statusCode: status),
                headers: ["Content-Type": "text/xml", "Content-Length": "\(length)"])
            context.write(wrapOutboundOut(.head(head)), promise: nil)
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(string: text)))), promise: nil)
        }
    }
}
