import NIOCore
import NIOPosix
import Synchronization
import WorkerProtocol

/// One worker's interface for a ``CallQueue``.
struct ConnectedWorker: Sendable {
    /// Increases with each worker of the HSM token that is started.
    let number: UInt64
    /// Sends a frame without waiting.
    let send: @Sendable ([UInt8]) -> Void
    /// Ends the worker once it has no more work, by ending its input.
    let close: @Sendable () -> Void
    /// Ends the worker now: ends its input, and kills its process if it does not end soon.
    let kill: @Sendable (WorkerEvents.RestartReason) -> Void
}

/// The daemon's end of one worker's socket pair. Frames that are sent close together are written in one call.
final class WorkerConnection: Sendable {
    private struct Outbox {
        var bytes: [UInt8] = []
        var isFlushScheduled = false
    }

    private let channel: any Channel
    private let outbox = Mutex(Outbox())

    private init(channel: any Channel) {
        self.channel = channel
    }

    /// Takes ownership of the socket, even when it throws.
    /// - Parameters:
    ///   - receive: called on the event loop with each answer. Returns false if there was no such request: the
    ///     connection is then closed.
    ///   - closed: called once, on the event loop, when no more answers will come.
    static func attach(
        socket: CInt, to eventLoop: any EventLoop,
        receive: @escaping @Sendable (UInt64, WorkerAnswer) -> Bool,
        closed: @escaping @Sendable () -> Void
    ) async throws -> WorkerConnection {
        let channel = try await ClientBootstrap(group: eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AnswerHandler(receive: receive, closed: closed))
                }
            }
            .withConnectedSocket(socket).get()
        return WorkerConnection(channel: channel)
    }

    /// Sends a whole frame. A frame that cannot be sent any more is lost, and `closed` is called.
    func send(_ frame: [UInt8]) {
        let flushes = outbox.withLock { outbox in
            outbox.bytes.append(contentsOf: frame)
            defer { outbox.isFlushScheduled = true }
            return !outbox.isFlushScheduled
        }
        if flushes { channel.eventLoop.execute { self.flush() } }
    }

    /// Ends the connection soon, and never within this call: answers that were already read are still processed.
    func close() {
        channel.eventLoop.execute { self.channel.close(promise: nil) }
    }

    private func flush() {
        let bytes = outbox.withLock { outbox in
            defer { outbox = Outbox() }
            return outbox.bytes
        }
        channel.writeAndFlush(channel.allocator.buffer(bytes: bytes), promise: nil)
    }
}

private final class AnswerHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var decoder = FrameDecoder(maximumLength: FieldBound.answerFrame)
    private let receive: @Sendable (UInt64, WorkerAnswer) -> Bool
    private let closed: @Sendable () -> Void

    init(
        receive: @escaping @Sendable (UInt64, WorkerAnswer) -> Bool, closed: @escaping @Sendable () -> Void
    ) {
        self.receive = receive
        self.closed = closed
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        decoder.append(unwrapInboundIn(data).readableBytesView)
        do {
            while let frame = try decoder.next() {
                guard receive(frame.identifier, try WorkerAnswer(frame)) else {
                    context.close(promise: nil)
                    return
                }
            }
        } catch {
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        closed()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}

/// The reason why a worker's connection closes. It is set before this side closes it, and read when it is closed.
final class WorkerEnd: Sendable {
    private struct State {
        var reason: WorkerEvents.RestartReason? = .died
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Marks the worker's end as intended, so that it is not counted, unless the worker was about to be killed.
    func expect() {
        state.withLock { state in
            if state.reason == .died { state.reason = nil }
        }
    }

    func set(_ reason: WorkerEvents.RestartReason) {
        state.withLock { $0.reason = reason }
    }

    func close() {
        state.withLock { $0.isClosed = true }
    }

    /// nil when the worker's end was intended.
    var reason: WorkerEvents.RestartReason? { state.withLock { $0.reason } }
    var isClosed: Bool { state.withLock { $0.isClosed } }
}
