import CLinux
import Foundation
import Glibc
import HostSystem
import Locks
package import NIOCore
import NIOHTTP1
import NIOPosix

// Unsafe: The calls write only the structures and arrays that they receive. The address's length comes from the
// kernel, within its field.

/// The origin of a connection that was just accepted, as the kernel reports it.
package enum ArrivingPeer: Sendable, Hashable {
    /// A Unix socket; the peer's uid.
    case user(UInt32)
    /// A network socket; the peer's IP address in network byte order, 4 or 16 bytes.
    case address([UInt8])

    /// The sources that the peer's connections count for until their client is known, the narrowest first; at least
    /// one.
    package var sources: [ConnectionSource] {
        switch self {
        case .user(let uid): [.user(uid)]
        case .address(let address): ConnectionSource.networks(of: address)
        }
    }

    package var source: ConnectionSource { sources[0] }

    fileprivate init(_ arrival: paytokend_arrival) {
        let length = Int(arrival.address_length)
        self =
            length == 0
            ? .user(arrival.peer.uid)
            : .address(unsafe withUnsafeBytes(of: arrival.address) { unsafe Array($0.prefix(length)) })
    }
}

/// Accepts the connections of one listening socket, on a separate thread.
///
/// A peer that connects and closes in a loop can do so tens of thousands of times a second. An event loop that accepted all
/// of them, and made a channel of each, would serve no request meanwhile. One that accepted more slowly would let the
/// kernel's queue fill up, and other callers' connects would fail.
///
/// This thread accepts connections as fast as the kernel makes them. It drops those whose peer has left and those that exceed
/// the limits. It gives the rest to the event loops, where each is set up in a turn of its source (``LoopTurns``). So a
/// connection uses a descriptor and memory here only while few others wait to be set up; all others wait in the kernel's
/// queue.
final class SocketAcceptor: Sendable {
    private struct Arriving {
        /// Connections that were given to event loops and are not set up yet.
        var bySource: [ConnectionSource: Int] = [:]
        var total = 0
        var isStopping = false
        var hasStopped = false
    }

    /// The maximum number of connections that are not set up yet; further ones wait in the kernel's queue.
    static let maximumArriving = 1024
    /// The number of connections accepted before the thread checks if it is to stop.
    private static let batch = 64
    /// The maximum number of batches accepted at the end: twice the kernel's queue. Peers may connect to a network socket
    /// as long as it is open.
    private static let lastBatches = 2 * Int(SocketFile.backlog) / batch

    /// What a batch of connections leaves in the kernel's queue.
    private enum Rest {
        case nothing, more
        /// The process lacks descriptors, or its event loops cannot keep up.
        case notNow
    }

    let address: InheritedSocket.Address
    private let descriptor: CInt
    private let isInherited: Bool
    private let acceptor: ConnectionAcceptor
    private let eventLoops: any EventLoopGroup
    /// A socket pair. ``stop()`` closes the second end, which wakes the thread.
    private let wake: (CInt, CInt)
    private let arriving = Mutex(Arriving())

    /// - Parameters:
    ///   - descriptor: a listening socket, which this object then owns.
    ///   - isInherited: true if another process holds the socket too, and the connections that wait at the end are for
    ///     the next program.
    /// - Throws: `SystemError`; the descriptor is closed then.
    init(
        _ descriptor: CInt, at address: InheritedSocket.Address, isInherited: Bool, acceptor: ConnectionAcceptor,
        eventLoops: any EventLoopGroup
    ) throws(SystemError) {
        var wake: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0,
            unsafe socketpair(AF_UNIX, type, 0, &wake) == 0
        else {
            let error = SystemError(call: "fcntl or socketpair", errno: errno)
            close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.address = address
        self.isInherited = isInherited
        self.acceptor = acceptor
        self.eventLoops = eventLoops
        self.wake = (wake[0], wake[1])
    }

    /// Starts the thread that accepts the socket's connections.
    func start() { Thread.detachNewThread { self.run() } }

    /// Ends the thread, which closes the socket. ``hasStopped`` is true once that has happened. A second call does nothing.
    ///
    /// Connections that the kernel has already made are still accepted, since their peers cannot know of the end. Only those of
    /// an inherited socket wait for the next program.
    func stop() {
        let isFirst = arriving.withLock { arriving in
            defer { arriving.isStopping = true }
            return !arriving.isStopping
        }
        if isFirst { close(wake.1) }
    }

    /// Returns true if no connection is accepted any more, and each accepted one is set up.
    var hasStopped: Bool { arriving.withLock { $0.hasStopped && $0.total == 0 } }

    /// Accepts connections until ``stop()``.
    func run() {
        var watched = [
            pollfd(fd: wake.0, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        while true {
            let ready = unsafe poll(&watched, nfds_t(watched.count), -1)
            if ready < 0, errno != EINTR { usleep(Self.pause) }
            if watched[0].revents != 0 { break }
            if acceptBatch() == .notNow { usleep(Self.pause) }
        }
        if !isInherited { acceptWaiting() }
        close(descriptor)
        close(wake.0)
        arriving.withLock { $0.hasStopped = true }
    }

    /// The pause, in microseconds, if the process lacks descriptors or its event loops cannot keep up.
    private static let pause: UInt32 = 2000

    private func acceptWaiting() {
        for _ in 0..<Self.lastBatches {
            switch acceptBatch() {
            case .nothing: return
            case .more: continue
            case .notNow: usleep(Self.pause)
            }
        }
    }

    /// Accepts the waiting connections, at most ``batch``.
    private func acceptBatch() -> Rest {
        for _ in 0..<Self.batch {
            guard arriving.withLock({ $0.total < Self.maximumArriving }) else { return .notNow }
            var arrival = paytokend_arrival()
            switch unsafe paytokend_accept(descriptor, &arrival) {
            case let connection where connection >= 0: receive(connection, from: ArrivingPeer(arrival))
            case -EAGAIN: return .nothing
            case -EPIPE, -EINTR, -ECONNABORTED: continue
            default: return .notNow
            }
        }
        return .more
    }

    private func receive(_ connection: CInt, from peer: ArrivingPeer) {
        let source = peer.source
        let isExpected = arriving.withLock { arriving in
            let before = arriving.bySource[source, default: 0]
            guard acceptor.connectionLimits.answers(source, after: before) else { return false }
            arriving.bySource[source] = before + 1
            arriving.total += 1
            return true
        }
        guard isExpected else {
            close(connection)
            return acceptor.service.connectionRefused()
        }
        guard let accepted = try? acceptor.service.accept(connection, from: peer) else {
            close(connection)
            return arrived(source)
        }
        let eventLoop = eventLoops.next()
        eventLoop.execute { [self] in
            guard let turns = acceptor.turns[eventLoop] else { return }
            turns.take(of: accepted.share()) { [self] in
                defer { turns.end() }
                guard paytokend_peer_has_left(connection) == 0 else {
                    close(connection)
                    return arrived(source)
                }
                acceptor.setUp(connection, as: accepted, on: eventLoop).whenComplete { _ in self.arrived(source) }
            }
        }
    }

    private func arrived(_ source: ConnectionSource) {
        arriving.withLock { arriving in
            let left = arriving.bySource[source, default: 1] - 1
            arriving.bySource[source] = left == 0 ? nil : left
            arriving.total -= 1
        }
    }
}

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
    /// Returns the share of an event loop's turns that the connection's work takes. It is called for each piece of
    /// work, since the client may become known later.
    package var share: @Sendable () -> TurnShare
    /// Makes the handler that answers the connection's requests. Called on the connection's event loop.
    package var handler: @Sendable (any Channel) -> any RequestHandler
    /// True if even a refusal is costly, as with TLS, whose handshake precedes it. An excess connection is then closed
    /// without an answer.
    package var isCostly: Bool
    /// Adds the handlers between the socket and HTTP, such as TLS; nil for none. Called on the connection's event loop.
    package var addTransport: (@Sendable (ChannelPipeline.SynchronousOperations) throws -> Void)?

    /// - Parameter share: returns the share of turns; nil for the turns of `source`.
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
            // The program may have begun to stop after this connection was accepted, but before it was counted. The
            // connection has then missed the event.
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
