import NIOCore
import NIOHTTP1
import NIOPosix

/// An HTTP server on a Unix socket, which answers each request with JSON.
final class PlayedPaytokend: Sendable {
    typealias Answer = @Sendable (HTTPRequestHead, [UInt8]) async -> (status: Int, body: [UInt8])

    private let channel: any Channel

    init(at path: String, _ answer: @escaping Answer) async throws {
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(Answerer(answer))
                }
            }
            .bind(unixDomainSocketPath: path).get()
    }

    deinit { channel.close(promise: nil) }

    private final class Answerer: ChannelInboundHandler {
        typealias InboundIn = HTTPServerRequestPart

        private let answer: Answer
        private var head: HTTPRequestHead?
        private var body: [UInt8] = []

        init(_ answer: @escaping Answer) { self.answer = answer }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            switch unwrapInboundIn(data) {
            case .head(let head): (self.head, body) = (head, [])
            case .body(let part): body += part.readableBytesView
            case .end:
                guard let head else { return }
                let (answer, body, channel) = (answer, body, context.channel)
                Task {
                    let (status, bytes) = await answer(head, body)
                    let head = HTTPResponseHead(
                        version: .http1_1, status: HTTPResponseStatus(statusCode: status),
                        headers: ["Content-Type": "application/json", "Content-Length": "\(bytes.count)"])
                    channel.write(HTTPServerResponsePart.head(head), promise: nil)
                    channel.write(HTTPServerResponsePart.body(.byteBuffer(ByteBuffer(bytes: bytes))), promise: nil)
                    channel.writeAndFlush(HTTPServerResponsePart.end(nil), promise: nil)
                }
            }
        }
    }
}
