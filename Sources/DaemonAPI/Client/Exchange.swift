import NIOCore
import NIOHTTP1
import NIOPosix
import OutgoingConnections

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// One request and its answer on a connection of their own.
struct Exchange: Sendable {
    /// How the body of a success is wanted. A refusal's is always gathered: it is short.
    enum Delivery: Sendable {
        /// Gathered, within the client's limit; its deadline counts until the last byte.
        case gathered
        /// In pieces as they are asked for, in as much memory as a few reads of the socket take. The deadline counts until
        /// the answer's head; then nothing may come for `idle` while more is waited for, nil for ever.
        case streamed(idle: Duration?)
    }

    let client: UnixSocketClient
    let request: ClientRequest
    let delivery: Delivery

    func run() async throws -> StreamedAnswer {
        // A path that does not fit is found here, before a connection is begun.
        let address = try SocketAddress(unixDomainSocketPath: client.path)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = loop.makePromise(of: StreamedAnswer.self)
        let (client, request, delivery) = (client, request, delivery)
        let connect: @Sendable () -> EventLoopFuture<any Channel> = {
            ClientBootstrap(group: loop)
                .connectTimeout(TimeAmount(client.deadline))
                .channelOption(.autoRead, value: false)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        let receiver = AnswerReceiver(
                            client: client, request: request, delivery: delivery, answer: answer)
                        try pipeline.addHandler(receiver.count)
                        try pipeline.addHTTPClientHandlers()
                        try pipeline.addHandler(receiver)
                    }
                }
                .connect(to: address)
        }
        let connected = Self.repeated(connect, on: loop)
        connected.whenFailure { answer.fail($0) }
        let deadline = loop.scheduleTask(in: TimeAmount(client.deadline)) {
            answer.fail(UnixSocketClientError.deadlineExceeded(path: client.path, after: client.deadline))
        }
        answer.futureResult.whenComplete { _ in deadline.cancel() }
        // After a success the receiver closes the connection, when the body has ended or nobody wants more of it.
        answer.futureResult.whenFailure { _ in connected.whenSuccess { $0.close(promise: nil) } }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            answer.fail(UnixSocketClientError.cutShort(path: client.path))
        }
    }
}

extension Exchange {
    /// A daemon that is flooded, or that starts, has a full queue of connections for a moment, which is EAGAIN for a socket that
    /// does not block.
    private static let (repetitions, pause) = (10, TimeAmount.milliseconds(20))

    static func repeated(
        _ connect: @escaping @Sendable () -> EventLoopFuture<any Channel>, on loop: any EventLoop,
        left: Int = repetitions
    ) -> EventLoopFuture<any Channel> {
        connect().flatMapError { error in
            guard left > 0, (error as? IOError)?.errnoCode == EAGAIN else { return loop.makeFailedFuture(error) }
            return loop.flatScheduleTask(in: pause) { repeated(connect, on: loop, left: left - 1) }.futureResult
        }
    }
}

/// Has the socket read when the body's reader wants more, and closes it when there is no reader any more.
struct StreamReader: NIOAsyncSequenceProducerDelegate {
    fileprivate let receiver: NIOLoopBound<(AnswerReceiver, ChannelHandlerContext)>
    fileprivate let eventLoop: any EventLoop

    func produceMore() {
        eventLoop.execute {
            let (receiver, context) = receiver.value
            receiver.wantMore(context)
        }
    }

    func didTerminate() {
        eventLoop.execute { receiver.value.1.close(promise: nil) }
    }
}

/// Sends the request as soon as the connection stands, and delivers the answer.
private final class AnswerReceiver: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private enum State {
        case waiting
        case gathering(HTTPResponseHead)
        case streaming(AnswerBody.Pieces.Source)
        case done
    }

    private let client: UnixSocketClient
    private let request: ClientRequest
    private let delivery: Exchange.Delivery
    private let answer: EventLoopPromise<StreamedAnswer>
    /// Goes in front of the HTTP decoder.
    let count: AnswerByteCount
    private var state = State.waiting
    private var gathered: [UInt8] = []
    private var wantsMore = true
    private var failure: UnixSocketClientError?
    private var silence: Scheduled<Void>?

    init(
        client: UnixSocketClient, request: ClientRequest, delivery: Exchange.Delivery,
        answer: EventLoopPromise<StreamedAnswer>
    ) {
        self.client = client
        self.request = request
        self.delivery = delivery
        self.answer = answer
        count = AnswerByteCount(mostBodyBytes: client.maximumAnswerBytes)
    }

    func channelActive(context: ChannelHandlerContext) {
        do {
            try client.checkPeer(context.channel)
        } catch {
            answer.fail(error)
            return context.close(promise: nil)
        }
        // First: when sending fails because the other side has closed, NIO takes what stands in the socket only where
        // somebody waits for it, and an early refusal stands there.
        context.read()
        send(context)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), state) {
        case (.head(let head), .waiting): begin(head, context)
        case (.body(let part), .gathering):
            guard gathered.count + part.readableBytes <= client.maximumAnswerBytes else {
                answer.fail(UnixSocketClientError.answerTooLarge(limit: client.maximumAnswerBytes))
                return
            }
            gathered.append(contentsOf: part.readableBytesView)
        case (.body(let part), .streaming(let source)):
            guard part.readableBytes > 0 else { return }
            wantsMore = source.yield(Array(part.readableBytesView)) == .produceMore
        case (.end, .gathering(let head)):
            state = .done
            answer.succeed(streamed(head, .whole(gathered)))
            context.close(promise: nil)
        case (.end, .streaming(let source)):
            finish()
            source.finish()
            context.close(promise: nil)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        silence?.cancel()
        silence = nil
        switch state {
        case .waiting, .gathering: context.read()
        case .streaming where wantsMore: wantMore(context)
        case .streaming, .done: break
        }
        context.fireChannelReadComplete()
    }

    func wantMore(_ context: ChannelHandlerContext) {
        guard case .streaming = state else { return }
        wantsMore = true
        context.read()
        guard case .streamed(let idle?) = delivery, silence == nil else { return }
        let connection = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        silence = context.eventLoop.scheduleTask(in: TimeAmount(idle)) {
            let (receiver, context) = connection.value
            receiver.failure = .silent(path: receiver.client.path, for: idle)
            context.close(promise: nil)
        }
    }

    // An early refusal may break our own sending and stand in the socket all the same: so an error is kept, and
    // counts only when the connection ends without an answer.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is AnswerByteCount.Exceeded {
            return answer.fail(UnixSocketClientError.answerTooLarge(limit: client.maximumAnswerBytes))
        }
        if failure == nil { failure = client.failure(of: error) }
        if error is HTTPParserError { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        let failure = failure ?? .cutShort(path: client.path)
        if case .streaming(let source) = state { source.finish(failure) }
        finish()
        answer.fail(failure)
        context.fireChannelInactive()
    }

    /// Writes the request as one message. The connection serves no other.
    private func send(_ context: ChannelHandlerContext) {
        let type = if case .gathered = delivery { "application/json" } else { "*/*" }
        var headers: HTTPHeaders = ["Host": "localhost", "Accept": type, "Connection": "close"]
        if let body = request.body {
            headers.add(name: "Content-Type", value: "application/json")
            headers.add(name: "Content-Length", value: String(body.count))
        }
        if let traceparent = request.traceparent { headers.add(name: "traceparent", value: traceparent) }
        let head = HTTPRequestHead(
            version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.target, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body = request.body {
            let buffer = context.channel.allocator.buffer(bytes: body)
            context.write(wrapOutboundOut(.body(.byteBuffer(buffer))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    private func begin(_ head: HTTPResponseHead, _ context: ChannelHandlerContext) {
        // 100 Continue and the like are no answer.
        guard head.status.code >= 200 else { return }
        guard case .streamed = delivery, (200..<300).contains(head.status.code) else {
            state = .gathering(head)
            count.headHasEnded()
            return
        }
        count.stop()
        let pieces = AnswerBody.Pieces.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: StreamReader(
                receiver: NIOLoopBound((self, context), eventLoop: context.eventLoop), eventLoop: context.eventLoop))
        state = .streaming(pieces.source)
        answer.succeed(streamed(head, .pieces(pieces.sequence)))
    }

    private func streamed(_ head: HTTPResponseHead, _ source: AnswerBody.Source) -> StreamedAnswer {
        StreamedAnswer(
            status: Int(head.status.code), headers: head.headers.map { (name: $0.name, value: $0.value) },
            body: AnswerBody(source: source, path: client.path))
    }

    private func finish() {
        state = .done
        silence?.cancel()
        silence = nil
    }
}
