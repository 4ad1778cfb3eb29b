import Locks
import NIOCore

/// A connection for several requests, one after another.
package final class HTTPConnection: Sendable {
    private let exchange: NIOLoopBound<HTTPExchange>
    private let channel: any Channel
    package let began = ContinuousClock.now
    private let used = Mutex((last: ContinuousClock.now, answers: 0))

    init(_ exchange: HTTPExchange, _ channel: any Channel) {
        self.exchange = NIOLoopBound(exchange, eventLoop: channel.eventLoop)
        self.channel = channel
    }

    /// Sends a request and returns its answer, without repeating the request. The previous request must have been
    /// answered. After a failure the connection is closed.
    ///
    /// - Parameter deadline: the time after which nothing is sent.
    package func send(
        _ request: HTTPRequest, before deadline: ContinuousClock.Instant
    ) async throws(HTTPFault) -> HTTPResponse {
        defer { used.withLock { $0.last = .now } }
        let whole = try await request.answer(on: channel.eventLoop) { answer in
            channel.eventLoop.execute { self.ask(request, before: deadline, answer) }
        } onCancel: {
            self.close()
        }
        used.withLock { $0.answers += 1 }
        return whole
    }

    /// Sends a request, and completes the promise with its answer. Must be called on the connection's event loop.
    func ask(
        _ request: HTTPRequest, before deadline: ContinuousClock.Instant, _ answer: EventLoopPromise<HTTPResponse>
    ) {
        exchange.value.ask(request, before: deadline, answer)
    }

    /// True if the caller runs on the connection's event loop.
    package var isOnCurrentEventLoop: Bool { channel.eventLoop.inEventLoop }

    /// The time at which the last request was answered or failed; before the first, the time at which the connection
    /// was made.
    package var lastUse: ContinuousClock.Instant { used.withLock { $0.last } }

    /// The number of answers received.
    package var answers: Int { used.withLock { $0.answers } }

    /// True until this host notices that the connection has ended.
    package var isOpen: Bool { channel.isActive }

    /// Returns true if the other side has kept the connection open, as far as this host can know.
    package func isAlive() async -> Bool {
        // On the connection's own event loop, both tasks would run before the loop polls.
        guard !isOnCurrentEventLoop else { return await Task.detached { await self.isAlive() }.value }
        // The event loop alternates between polling its sockets and running the submitted tasks. The second task
        // normally runs after a poll that began after this call. That poll detects a connection that had already ended.
        // A loop that other tasks keep busy may run both tasks without a poll. An ended connection then appears open.
        for _ in 0..<2 {
            guard (try? await channel.eventLoop.submit {}.get()) != nil else { return false }
        }
        return isOpen
    }

    package func close() { channel.close(promise: nil) }

    /// Calls `body` when the connection has ended.
    package func whenClosed(_ body: @escaping @Sendable () -> Void) { channel.closeFuture.whenComplete { _ in body() } }
}
