import NIOCore
import NIOHTTP1
import NIOPosix
import TestSupport

/// An HTTP server on a Unix socket that responds to each request with JSON. Status 0 closes the connection instead.
final class SimulatedPaytokend: Sendable {
    typealias Answer = @Sendable (HTTPRequestHead, [UInt8]) async -> (status: Int, body: [UInt8])

    private let channel: any Channel
    private let connections: Shared<[any Channel]>

    /// The number of connections accepted so far.
    var accepted: Int { connections.current.count }

    /// Closes all connections, as a stopping daemon does.
    func closeConnections() async throws {
        for connection in connections.current { try? await connection.close() }
    }

    init(at path: String, _ answer: @escaping Answer) async throws {
        let connections = Shared<[any Channel]>([])
        self.connections = connections
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                connections.change { $0.append(channel) }
                return channel.eventLoop.makeCompletedFuture {
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
                    if status == 0 { return channel.close(promise: nil) }
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
