import Locks
import NIOCore
import NIOPosix

/// A proxy between clients and a PostgreSQL server that simulates network faults. It listens on a separate Unix socket.
public final class PostgreSQLProxy: Sendable {
    /// The fault applied to the traffic.
    public indirect enum Fault: Sendable, Equatable {
        case none
        /// The next commit takes place. Then the connection breaks before the client receives the answer.
        case loseAcknowledgement(then: Fault)
        /// The connection breaks before the next commit reaches the server.
        case loseCommit(then: Fault)
        /// The next commit never reaches the server, and the connection stays open.
        case holdCommit(then: Fault)
        /// No bytes pass in either direction, and neither end receives an error.
        case silence
        /// New connections are closed at once.
        case refuse
        /// Clients receive a process number that is not the server process's, as from a connection pooler.
        case pool
    }

    enum Direction { case toServer, toClient }

    enum Verdict { case pass, cut, hold }

    private struct State {
        var fault = Fault.none
        var cuts = 0
        var channels: [any Channel] = []
    }

    public let directory: FreshDirectory
    private let state = Mutex(State())
    private let delay: TimeAmount

    /// Starts a proxy in front of a server.
    ///
    /// - Parameter milliseconds: the delay in each direction.
    public init(to server: PostgreSQLServer, delay milliseconds: Int64 = 0) async throws {
        directory = try FreshDirectory()
        delay = .milliseconds(milliseconds)
        let name = ".s.PGSQL.\(PostgreSQLServer.port)"
        let target = server.directory.path(".s.PGSQL.\(server.port)")
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { [weak self] client in
                guard let self, !isRefusing else { return client.close() }
                return connect(client, to: target)
            }
            .bind(unixDomainSocketPath: directory.path(name)).get()
        keep(listener)
    }

    deinit {
        for channel in state.withLock({ $0.channels }) { channel.close(promise: nil) }
    }

    public var fault: Fault {
        get { state.withLock { $0.fault } }
        set { state.withLock { $0.fault = newValue } }
    }

    /// The number of connections that the proxy has cut.
    public var cuts: Int { state.withLock { $0.cuts } }

    /// The URL of a database through the proxy.
    public func url(_ database: String, user: String) -> String {
        "postgresql://\(user)@/\(database)?host=\(directory.path)&port=\(PostgreSQLServer.port)"
    }

    private var isRefusing: Bool { fault == .refuse }

    private func keep(_ channel: any Channel) { state.withLock { $0.channels.append(channel) } }

    private func connect(_ client: any Channel, to target: String) -> EventLoopFuture<Void> {
        keep(client)
        let toClient = Relay(proxy: self, to: client, .toClient, delay: delay)
        return ClientBootstrap(group: client.eventLoop)
            .channelInitializer { server in
                server.eventLoop.makeCompletedFuture { try server.pipeline.syncOperations.addHandler(toClient) }
            }
            .connect(unixDomainSocketPath: target)
            .flatMap { [weak self, delay] server in
                guard let self else { return client.close() }
                keep(server)
                return client.pipeline.addHandler(Relay(proxy: self, to: server, .toServer, delay: delay))
            }
            .flatMap { client.setOption(.autoRead, value: true) }
    }

    fileprivate var isPooler: Bool { fault == .pool }

    /// Decides by the current fault whether new bytes pass, are held back, or cut the connection.
    ///
    /// - Parameter bytes: the new bytes, preceded by the last 8 earlier ones, so that a searched text may span two
    ///   reads.
    fileprivate func verdict(on bytes: [UInt8], _ direction: Direction) -> Verdict {
        state.withLock { state in
            switch (state.fault, direction) {
            case (.silence, _): return .hold
            // The server confirms a commit with CommandComplete, whose text is COMMIT.
            case (.loseAcknowledgement(let next), .toClient) where bytes.holds("COMMIT\0"): state.fault = next
            // The client commits with a Bind of the unnamed portal to the prepared statement `commit`.
            case (.loseCommit(let next), .toServer) where bytes.holds("\0commit\0"): state.fault = next
            case (.holdCommit(let next), .toServer) where bytes.holds("\0commit\0"):
                state.fault = next
                return .hold
            default: return .pass
            }
            state.cuts += 1
            return .cut
        }
    }
}

/// Forwards bytes from one end to the other, as the proxy's fault permits. Sendable because its channel's event loop alone
/// uses it.
private final class Relay: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private weak var proxy: PostgreSQLProxy?
    private let target: any Channel
    private let direction: PostgreSQLProxy.Direction
    private let delay: TimeAmount
    private var tail: [UInt8] = []

    init(
        proxy: PostgreSQLProxy, to target: any Channel, _ direction: PostgreSQLProxy.Direction, delay: TimeAmount
    ) {
        self.proxy = proxy
        self.target = target
        self.direction = direction
        self.delay = delay
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var buffer = unwrapInboundIn(data)
        if direction == .toClient, proxy?.isPooler == true { buffer.renumberProcess() }
        let seen = tail + buffer.readableBytesView
        tail = Array(seen.suffix(8))
        switch proxy?.verdict(on: seen, direction) ?? .cut {
        case .pass where delay == .zero: target.writeAndFlush(buffer, promise: nil)
        case .pass:
            let (target, buffer) = (target, buffer)
            context.eventLoop.scheduleTask(in: delay) { target.writeAndFlush(buffer, promise: nil) }
        case .hold: break
        case .cut:
            target.close(promise: nil)
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { target.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

extension ByteBuffer {
    /// Changes the process number in a BackendKeyData message, whose length of 12 bytes covers the length, the number
    /// and a secret.
    fileprivate mutating func renumberProcess() {
        let head = Array("K".utf8) + [0, 0, 0, 12]
        let bytes = Array(readableBytesView)
        guard bytes.count >= head.count + 8,
            let place = (0...bytes.count - head.count - 8).first(where: { bytes[$0..<$0 + head.count] == head[...] })
        else { return }
        setInteger(UInt32(1), at: readerIndex + place + head.count)
    }
}

extension [UInt8] {
    fileprivate func holds(_ text: String) -> Bool {
        let wanted = Array(text.utf8)
        guard count >= wanted.count else { return false }
        return (0...count - wanted.count).contains { self[$0..<$0 + wanted.count] == wanted[...] }
    }
}
