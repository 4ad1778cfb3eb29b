package import NIOCore
import NIOHTTP1
import NIOPosix
import Refusals

/// Tells who has connected, and has that peer's requests answered.
package protocol ConnectionService: Sendable {
    /// On the connection's event loop, once, before anything is read from it. When it throws the connection is closed.
    func accept(_ channel: any Channel) throws -> AcceptedConnection
    /// By one: after each accepted connection, and after its end.
    func connectionsChanged(by difference: Int)
    /// There were too many connections for one more, or one gave way to another.
    func connectionRefused()
}

extension ConnectionService {
    package func connectionRefused() {}
}

/// A connection of which is known where it comes from.
package struct AcceptedConnection {
    /// What it is counted by.
    package var source: ConnectionSource
    /// The larger sources that `source` is a part of, the nearest first.
    package var wider: [ConnectionBound]
    package var handler: any RequestHandler
    /// Whether an answer costs more than serving does, as with TLS, whose handshake comes before it. Such a connection is
    /// closed without one where there are too many.
    package var isCostly: Bool
    /// Adds what stands between the socket and HTTP, TLS for one; nil for nothing.
    package var addTransport: ((ChannelPipeline.SynchronousOperations) throws -> Void)?

    package init(
        source: ConnectionSource, within wider: [ConnectionBound] = [], handler: any RequestHandler,
        isCostly: Bool = false,
        addTransport: ((ChannelPipeline.SynchronousOperations) throws -> Void)? = nil
    ) {
        self.source = source
        self.wider = wider
        self.handler = handler
        self.isCostly = isCostly
        self.addTransport = addTransport
    }
}

/// Sets up each accepted connection.
struct ConnectionAcceptor: Sendable {
    let service: any ConnectionService
    let connectionLimits: ConnectionLimits
    let limits: RequestLimits
    let answersOnEventLoop: Bool
    let turns: ListenerTurns

    private static let readBytes = 16 * 1024

    /// Makes a channel of an accepted connection, which belongs to it from now on. On the event loop.
    func setUp(_ connection: CInt, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: eventLoop)
            .channelOption(.autoRead, value: false)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readBytes))
            // A client may say that it has sent all, and still wait for the answer.
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try setUp(channel) }
            }
            .withConnectedSocket(connection)
    }

    /// For a socket of the network.
    ///
    /// - Parameter accepting: accepts; `group` has the connections.
    func bootstrap(accepting: any EventLoopGroup, group: any EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap(group: accepting, childGroup: group)
            .serverChannelOption(.maxMessagesPerRead, value: 16)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readBytes))
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try setUp(channel) }
            }
    }

    private func setUp(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        guard let turns = turns[channel.eventLoop] else { throw ChannelError.operationUnsupported }
        let connection = try service.accept(channel)
        let decision = connectionLimits.admit(channel, from: connection.source, within: connection.wider)
        service.connectionsChanged(by: 1)
        if decision != .serve { service.connectionRefused() }
        channel.closeFuture.whenComplete { _ in
            connectionLimits.release(channel, decision: decision)
            service.connectionsChanged(by: -1)
        }
        switch decision {
        case .serve:
            let input = BoundedInput()
            let executor = answersOnEventLoop ? EventLoopExecutor(channel.eventLoop) : nil
            try pipeline.addHandler(DismissalHandler { service.connectionRefused() })
            try connection.addTransport?(pipeline)
            let decoder = ByteToMessageHandler(
                HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: Self.headLimits))
            try pipeline.addHandlers([
                input, decoder, Self.encoder,
                ConnectionHandler(
                    handler: connection.handler, limits: limits, input: input, executor: executor,
                    source: connection.source, turns: turns),
            ])
            // Accepted before, and counted after the program began to end.
            if connectionLimits.isDraining { channel.pipeline.fireUserInboundEventTriggered(ConnectionHandler.Drain()) }
        case .refuse where !connection.isCostly:
            let refusal = Refusal(
                .overloaded, "Too many connections are open; use fewer, keep them, or try again later.")
            try pipeline.addHandlers([
                Self.encoder, OverloadedConnection(answer: connection.handler.answer(for: refusal)),
            ])
        case .refuse, .close:
            // Closes the channel, which is not registered yet.
            throw ChannelError.eof
        }
    }

    /// Leaves an answer's framing headers alone: by itself the encoder would chunk a body without a length for HTTP/1.0 too.
    private static var encoder: HTTPResponseEncoder {
        var configuration = HTTPResponseEncoder.Configuration()
        configuration.automaticallySetFramingHeaders = false
        return HTTPResponseEncoder(configuration: configuration)
    }

    /// As documented: 16 KiB, of which one field may have all, and 256 fields, each of which costs the decoder some time.
    private static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderListSize = 16 * 1024
        limits.maxHeaderFieldCount = 256
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
