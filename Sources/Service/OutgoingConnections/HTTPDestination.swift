package import NIOCore
import NIOPosix

/// A server to which this program sends HTTP/1.1 requests, and the proxy and TLS layers of the connections to it.
///
/// It never repeats a request, has no connection pool, and follows no redirects. A caller that may repeat a request
/// does so itself: ``HTTPFault/phase`` shows if any byte of the request may have been sent.
package struct HTTPDestination: Sendable {
    package enum Place: Sendable {
        case host(String, port: Int)
        case address(SocketAddress)
        /// A Unix socket's path.
        case unix(String)
    }

    package let place: Place
    /// The maximum size in bytes of a body that is gathered (``HTTPRequest/Delivery/gathered``).
    package let maximumBodyBytes: Int
    /// Resolves the host's name.
    package var names = HostNames.shared
    /// Runs on the event loop as soon as there is a connection, and before anything else is sent: makes a tunnel through a
    /// proxy, or checks the peer. An error ends the connection.
    package var prepare: @Sendable (any Channel) -> EventLoopFuture<Void> = { $0.eventLoop.makeSucceededVoidFuture() }
    /// Returns the TLS handlers for one connection; nil for a connection without TLS.
    package var tls: (@Sendable () throws -> [any ChannelHandler])?

    package init(_ place: Place, maximumBodyBytes: Int) {
        self.place = place
        self.maximumBodyBytes = maximumBodyBytes
    }

    /// Sends a request on a new connection, which ends with the answer.
    ///
    /// - Parameter deadline: the time after which nothing is sent.
    package func send(
        _ request: HTTPRequest, before deadline: ContinuousClock.Instant
    ) async throws(HTTPFault) -> HTTPResponse {
        let connection = connection(before: deadline)
        return try await request.answer(on: connection.eventLoop) { answer in
            connection.whenComplete { result in
                switch result {
                case .success(let connection): connection.ask(request, before: deadline, answer)
                case .failure(let error): answer.fail(error)
                }
            }
        } onCancel: {
            connection.whenSuccess { $0.close() }
        }
    }

    /// Makes a connection for several requests.
    package func connect(before deadline: ContinuousClock.Instant) async throws(HTTPFault) -> HTTPConnection {
        do { return try await connection(before: deadline).get() } catch { throw HTTPFault(error) }
    }

    private func connection(before deadline: ContinuousClock.Instant) -> EventLoopFuture<HTTPConnection> {
        // On the caller's own event loop, if it runs on one, no step wakes another thread.
        let loop = MultiThreadedEventLoopGroup.currentEventLoop ?? MultiThreadedEventLoopGroup.singleton.next()
        let ready = loop.makePromise(of: HTTPConnection.self)
        let left = max(ContinuousClock.now.duration(to: deadline), .milliseconds(1))
        let bootstrap = ClientBootstrap(group: loop).connectTimeout(TimeAmount(left)).resolver(names.resolver(on: loop))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(HTTPExchange(self))
                }
            }
        let connected =
            switch place {
            case .host(let host, let port): bootstrap.connect(host: host, port: port)
            case .address(let address): bootstrap.connect(to: address)
            case .unix(let path): bootstrap.connect(unixDomainSocketPath: path)
            }
        connected.flatMapThrowing { channel in
            // A name with several addresses is tried on several connections, and more than one may succeed. Only the
            // connection that NIO returned is used.
            try channel.pipeline.syncOperations.handler(type: HTTPExchange.self).open(before: deadline, ready)
        }.whenFailure { ready.fail(HTTPFault($0)) }
        return ready.futureResult
    }
}
