package import NIOCore
import NIOHTTP1
import NIOPosix

/// Identifies each peer that connects, and provides the handler of its requests.
package protocol ConnectionService: Sendable {
    /// Called once for each connection, on the accepting thread, before a channel is made. If it throws, the connection is
    /// closed.
    ///
    /// - Parameter connection: the connected socket.
    func accept(_ connection: CInt, from peer: ArrivingPeer) throws -> AcceptedConnection
    /// Called with 1 for each connection that was set up, and with -1 after its end.
    func connectionsChanged(by difference: Int)
    /// Called when a connection was refused because there were too many, or closed to make room for another one.
    func connectionRefused()
}

extension ConnectionService {
    package func connectionRefused() {}
}

/// An accepted connection whose source is known.
package struct AcceptedConnection: Sendable {
    /// The source that the connection counts for.
    package var source: ConnectionSource
    /// The larger sources that `source` is a part of, the nearest first.
    package var wider: [ConnectionBound]
    /// Returns the source whose turns on an event loop the connection's work takes. Called each time, since the source may be
    /// known better later.
    package var share: @Sendable () -> TurnShare
    /// Makes the handler that answers the connection's requests. Called on the connection's event loop.
    package var handler: @Sendable (any Channel) -> any RequestHandler
    /// True if an answer costs more than serving, as with TLS, whose handshake precedes it. If there are too many
    /// connections, such a connection is closed without an answer.
    package var isCostly: Bool
    /// Adds the handlers between the socket and HTTP, such as TLS; nil for none. Called on the connection's event loop.
    package var addTransport: (@Sendable (ChannelPipeline.SynchronousOperations) throws -> Void)?

    /// - Parameter share: nil for the turns of `source`.
    package init(
        source: ConnectionSource, within wider: [ConnectionBound] = [], share: (@Sendable () -> TurnShare)? = nil,
        isCostly: Bool = false, addTransport: (@Sendable (ChannelPipeline.SynchronousOperations) throws -> Void)? = nil,
        handler: @escaping @Sendable (any Channel) -> any RequestHandler
    ) {
        self.source = source
        self.wider = wider
        self.share = share ?? { TurnShare(of: source) }
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

    /// Makes a channel of an accepted connection, and takes ownership of the connection. Call on the event loop.
    func setUp(
        _ connection: CInt, as accepted: AcceptedConnection, on eventLoop: any EventLoop
    ) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: eventLoop)
            .channelOption(.autoRead, value: false)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Self.readBytes))
            // A client may close its sending side and still wait for the answer.
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try setUp(channel, as: accepted) }
            }
            .withConnectedSocket(connection)
    }

    private func setUp(_ channel: any Channel, as connection: AcceptedConnection) throws {
        let pipeline = channel.pipeline.syncOperations
        guard let turns = turns[channel.eventLoop] else { throw ChannelError.operationUnsupported }
        let handler = connection.handler(channel)
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
                    handler: handler, limits: limits, input: input, executor: executor,
                    share: connection.share, turns: turns),
            ])
            // The connection was accepted before the program began to stop, and counted after it.
            if connectionLimits.isDraining { channel.pipeline.fireUserInboundEventTriggered(ConnectionHandler.Drain()) }
        case .refuse where !connection.isCostly:
            let condition = HTTPCondition(
                kind: .tooManyConnections,
                message: "Too many connections are open; use fewer, keep them, or try again later.")
            try pipeline.addHandlers([
                Self.encoder, OverloadedConnection(answer: handler.answer(to: condition)),
            ])
        case .refuse, .close:
            // This closes the channel, which is not registered yet.
            throw ChannelError.eof
        }
    }

    /// Leaves an answer's framing headers unchanged. By default the encoder would chunk a body without a length even for
    /// HTTP/1.0.
    private static var encoder: HTTPResponseEncoder {
        var configuration = HTTPResponseEncoder.Configuration()
        configuration.automaticallySetFramingHeaders = false
        return HTTPResponseEncoder(configuration: configuration)
    }

    /// The documented limits: 16 KiB, all of which one field may use, and 256 fields, each of which costs the decoder some
    /// time.
    private static var headLimits: NIOHTTPDecoderLimitConfiguration {
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = 16 * 1024
        limits.maxHeaderListSize = 16 * 1024
        limits.maxHeaderFieldCount = 256
        return limits
    }
}

/// A connection beyond the limits. It is refused before any request is read, and is closed when the peer closes it or after a
/// second.
final class OverloadedConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = HTTPServerResponsePart

    private let answer: HTTPAnswer
    private var allowance = 256 * 1024

    init(answer: HTTPAnswer) {
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        // Closing with unread bytes would make the kernel discard the answer, so the request is read, within bounds.
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
