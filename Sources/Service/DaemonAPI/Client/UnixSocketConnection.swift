import NIOCore
import NIOPosix
import Synchronization

/// A connection to the daemon that is kept, for one request after another. ``UnixSocketClient`` makes one for each request.
public final class UnixSocketConnection: Sendable {
    private let client: UnixSocketClient
    private let channel: any Channel
    private let receiver: NIOLoopBound<AnswerReceiver>
    public let began = ContinuousClock.now
    private let used = Mutex(ContinuousClock.now)

    private init(_ client: UnixSocketClient, _ channel: any Channel, _ receiver: NIOLoopBound<AnswerReceiver>) {
        self.client = client
        self.channel = channel
        self.receiver = receiver
    }

    /// Connects, within the client's deadline.
    public static func open(_ client: UnixSocketClient) async throws(UnixSocketClientError) -> UnixSocketConnection {
        do {
            return try await client.connect(on: MultiThreadedEventLoopGroup.singleton.next()).flatMapThrowing {
                channel in
                let receiver = try channel.pipeline.syncOperations.handler(type: AnswerReceiver.self)
                return UnixSocketConnection(client, channel, NIOLoopBound(receiver, eventLoop: channel.eventLoop))
            }.get()
        } catch {
            throw client.failure(of: error)
        }
    }

    /// Sends one request; the one before must have been answered.
    ///
    /// - Parameter time: for sending and receiving together. The connection is closed when it is over.
    /// - Throws: ``UnixSocketClientError/closed(path:)`` where the daemon closed a connection that had served before, and nothing
    ///   of an answer came. After any error the connection is closed.
    public func send(_ request: ClientRequest, within time: Duration) async throws(UnixSocketClientError)
        -> ClientAnswer
    {
        let answer = channel.eventLoop.makePromise(of: StreamedAnswer.self)
        answer.futureResult.whenFailure { [channel] _ in channel.close(promise: nil) }
        channel.eventLoop.execute { [receiver, channel] in
            receiver.value.begin(
                AnswerReceiver.Query(request: request, delivery: .gathered, answer: answer), on: channel)
        }
        defer { used.withLock { $0 = .now } }
        do {
            let whole = try await client.value(of: answer, within: time)
            guard case .whole(let body) = whole.body.source else {
                throw UnixSocketClientError.cutShort(path: client.path)
            }
            return ClientAnswer(status: whole.status, headers: whole.headers, body: body)
        } catch {
            throw client.failure(of: error)
        }
    }

    /// The moment of its last answer.
    public var lastUse: ContinuousClock.Instant { used.withLock { $0 } }

    /// Returns true while the other side's end has not been noticed.
    public var isOpen: Bool { channel.isActive }

    public func close() { channel.close(promise: nil) }
}
