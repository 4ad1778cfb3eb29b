import NIOCore
import NIOHTTP1
import NIOPosix
import Refusals

/// Sets up each accepted connection.
struct ConnectionAcceptor: Sendable {
    let socket: SocketKind
    let connectionLimits: ConnectionLimits
    let handler: any RequestHandler
    let limits: ConnectionHandler.Limits
    let instruments: Instruments

    private static let readBytes = 16 * 1024

    func bootstrap(group: any EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap(group: group)
            .serverChannelOption(.maxMessagesPerRead, value: 16)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readBytes))
            // A client may say that it has sent all, and still wait for the answer.
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try setUp(channel) }
            }
    }

    private func setUp(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        // The kernel recorded these when the peer connected and does not change them, so they are asked for once.
        guard
            let peer = try pipeline.withUnsafeTransportIfAvailable(
                of: NIOBSDSocket.Handle.self, { try PeerCredentials(connectedSocket: $0) })
        else { throw ChannelError.operationUnsupported }
        let decision = connectionLimits.admit(channel, uid: peer.uid)
        instruments.connections.add(1)
        channel.closeFuture.whenComplete { _ in
            connectionLimits.release(channel, uid: peer.uid, decision: decision)
            instruments.connections.add(-1)
        }
        switch decision {
        case .serve:
            let input = BoundedInput()
            // Administration may take long, with lists of thousands of keys: it must not hold up payments.
            let executor = socket == .payments ? EventLoopExecutor(channel.eventLoop) : nil
            let decoder = ByteToMessageHandler(
                HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: Self.headLimits))
            try pipeline.addHandlers([
                input, decoder, Self.encoder,
                ConnectionHandler(
                    peer: peer, socket: socket, handler: handler, limits: limits, input: input, executor: executor),
            ])
        case .refuse:
            let refusal = Refusal(
                .overloaded, "Too many connections are open; use fewer, keep them, or try again later.")
            try pipeline.addHandlers([
                Self.encoder, OverloadedConnection(answer: handler.answer(for: refusal, peer: peer)),
            ])
        case .close:
            channel.close(promise: nil)
        }
    }

    /// Leaves an answer's framing headers alone: by itself the encoder would chunk a body without a length for HTTP/1.0 too.
    private static var encoder: HTTPResponseEncoder {
        var configuration = HTTPResponseEncoder.Configuration()
        configuration.automaticallySetFramingHeaders = false
        return HTTPResponseEncoder(configuration: configuration)
    }

    private static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 8 * 1024
        limits.maxHeaderListSize = 16 * 1024
        limits.maxHeaderFieldCount = 64
        return limits
    }
}

/// A connection beyond the limits. It gets `overloaded` without being asked anything, and is closed when the peer closes
/// or after a second.
final class OverloadedConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = HTTPServerResponsePart

    private let answer: HTTPAnswer
    private var allowance = 256 * 1024

    init(answer: HTTPAnswer) {
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        // Closing with unread bytes makes the kernel discard the answer, so the request is read, within bounds.
        for part in answer.parts(AnswerFraming(), allocator: context.channel.allocator) {
            context.write(wrapOutboundOut(part), promise: nil)
        }
        context.flush()
        context.close(mode: .output, promise: nil)
        let channel = context.channel
        context.eventLoop.scheduleTask(in: .seconds(1)) { channel.close(promise: nil) }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        allowance -= unwrapInboundIn(data).readableBytes
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if allowance > 0 { context.read() } else { context.close(promise: nil) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}
