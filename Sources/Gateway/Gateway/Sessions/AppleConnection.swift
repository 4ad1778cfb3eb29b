import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import OutgoingConnections
import Synchronization

/// An answer of Apple's host, whole.
struct AppleAnswer: Sendable {
    let status: Int
    let contentType: String?
    let retryAfter: Int?
    /// Within ``AppleExchange/mostBodyBytes``.
    let body: [UInt8]
    /// Whether the connection may serve another request.
    let isReusable: Bool
}

/// A TLS connection to Apple's host as one merchant's identity, for one request after the other.
final class AppleConnection: KeptConnection {
    private let channel: any Channel
    private let exchange: NIOLoopBound<AppleExchange>
    /// Since when it is there.
    let began = ContinuousClock.now
    private let used = Mutex(ContinuousClock.now)
    /// The moment of its last answer.
    var lastUse: ContinuousClock.Instant { used.withLock { $0 } }

    private init(_ channel: any Channel, _ exchange: NIOLoopBound<AppleExchange>) {
        self.channel = channel
        self.exchange = exchange
    }

    /// Connects, once.
    ///
    /// - Parameter until: what has not been done by then fails.
    static func open(
        to endpoint: AppleEndpoint, as tls: IdentityTLS, _ progress: SessionProgress
    ) async throws(SessionFailure) -> AppleConnection {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let ready = loop.makePromise(of: AppleConnection.self)
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(max(progress.origin.deadline - .now(), .milliseconds(1)))
            .resolver(endpoint.names.resolver(on: loop))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let exchange = AppleExchange(host: endpoint.host.name, progress: progress)
                    exchange.ready = { result in
                        switch result {
                        case .success(let exchange):
                            ready.succeed(AppleConnection(channel, NIOLoopBound(exchange, eventLoop: loop)))
                        case .failure(let failure): ready.fail(failure)
                        }
                    }
                    let addTLS: (ChannelPipeline.SynchronousOperations) throws -> Void = { pipeline in
                        let serverName = ServerNameCheck(endpoint.host.name)
                        let counts = [
                            AnswerByteCount.ofConnection(),
                            AnswerByteCount(mostBodyBytes: AppleExchange.mostBodyBytes),
                        ]
                        try pipeline.addHandler(counts[0])
                        try pipeline.addHandler(serverName.tls(tls.context))
                        exchange.serverName = serverName
                        try pipeline.addHandler(counts[1])
                        exchange.counts = counts
                        try pipeline.addHTTPClientHandlers()
                        try pipeline.addHandler(exchange)
                    }
                    if case .proxy = endpoint.route {
                        try channel.pipeline.syncOperations.addHandler(
                            ProxyTunnel(to: endpoint.host.name, deadline: progress.origin.deadline, addTLS) {
                                ready.fail($0)
                            })
                    } else {
                        try addTLS(channel.pipeline.syncOperations)
                    }
                }
            }
        let connected =
            switch endpoint.route {
            case .direct: bootstrap.connect(host: endpoint.host.name, port: 443)
            case .proxy(let proxy): bootstrap.connect(host: proxy.host, port: proxy.port)
            case .testServer(let loopback): bootstrap.connect(to: loopback)
            }
        connected.whenComplete { result in
            switch result {
            case .success: progress.reached(.connection)
            case .failure(let error): ready.fail(failure(ofConnecting: error))
            }
        }
        do { return try await ready.futureResult.get() } catch {
            connected.whenSuccess { $0.close(promise: nil) }
            throw error as? SessionFailure ?? .notConnected
        }
    }

    private static func failure(ofConnecting error: any Error) -> SessionFailure {
        switch error {
        case let error as SessionFailure: return error
        case let error as NIOConnectionError:
            if error.connectionErrors.isEmpty, error.dnsAError != nil || error.dnsAAAAError != nil {
                return .nameNotResolved
            }
            return .notConnected
        case ChannelError.connectTimeout: return .deadlineExceeded(step: .connection)
        default: return .notConnected
        }
    }

    /// Sends one request, once. Nothing else may be under way on the connection.
    func post(
        _ body: [UInt8], _ progress: SessionProgress
    ) async throws(SessionFailure) -> AppleAnswer {
        let answer = channel.eventLoop.makePromise(of: AppleAnswer.self)
        channel.eventLoop.execute { [exchange, channel] in
            exchange.value.post(body, on: channel, progress, answer)
        }
        defer { used.withLock { $0 = .now } }
        do { return try await answer.futureResult.get() } catch { throw error as? SessionFailure ?? .connectionLost }
    }

    /// Whether the other side has kept the connection open, as far as this host can know.
    func isAlive() async -> Bool {
        // The event loop looks at its sockets, then runs the tasks that wait. So a task has it look, and behind a second one an
        // end that had arrived before is known, unless the loop was busy with other tasks all the time.
        for _ in 0..<2 {
            guard (try? await channel.eventLoop.submit {}.get()) != nil else { return false }
        }
        return channel.isActive
    }

    func close() { channel.close(promise: nil) }

    /// When it ends, whoever ends it.
    func whenClosed(_ body: @escaping @Sendable () -> Void) { channel.closeFuture.whenComplete { _ in body() } }
}
