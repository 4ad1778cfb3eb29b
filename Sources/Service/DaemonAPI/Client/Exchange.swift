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

/// One request and its answer on a connection of their own; ``UnixSocketConnection`` is for several.
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
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = loop.makePromise(of: StreamedAnswer.self)
        let connected: EventLoopFuture<any Channel>
        do {
            connected = try client.connect(
                on: loop, sending: AnswerReceiver.Query(request: request, delivery: delivery, answer: answer))
        } catch {
            answer.fail(error)
            throw error
        }
        connected.whenFailure { answer.fail($0) }
        // After a success the receiver closes the connection, when the body has ended or its reader has left.
        answer.futureResult.whenFailure { _ in connected.whenSuccess { $0.close(promise: nil) } }
        return try await client.value(of: answer, within: client.deadline)
    }
}

extension UnixSocketClient {
    /// Begins a connection, whose last handler is an ``AnswerReceiver``.
    ///
    /// - Parameter first: what is sent as soon as the connection is there, the only request on it; nil to keep it for several.
    /// - Throws: for a path that does not fit, before a connection is begun.
    func connect(
        on loop: any EventLoop, sending first: AnswerReceiver.Query? = nil
    ) throws -> EventLoopFuture<any Channel> {
        let address = try SocketAddress(unixDomainSocketPath: path)
        let connect: @Sendable () -> EventLoopFuture<any Channel> = {
            ClientBootstrap(group: loop)
                .connectTimeout(TimeAmount(deadline))
                .channelOption(.autoRead, value: false)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let pipeline = channel.pipeline.syncOperations
                        let receiver = AnswerReceiver(client: self, first: first)
                        try pipeline.addHandler(receiver.count)
                        try pipeline.addHTTPClientHandlers()
                        try pipeline.addHandler(receiver)
                    }
                }
                .connect(to: address)
        }
        return Exchange.repeated(connect, on: loop)
    }

    /// The answer, unless the time or the task that waits ends first; the promise then fails.
    func value(
        of answer: EventLoopPromise<StreamedAnswer>, within time: Duration
    ) async throws -> StreamedAnswer {
        let alarm = answer.futureResult.eventLoop.scheduleTask(in: TimeAmount(time)) {
            answer.fail(UnixSocketClientError.deadlineExceeded(path: path, after: time))
        }
        answer.futureResult.whenComplete { _ in alarm.cancel() }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            answer.fail(UnixSocketClientError.cutShort(path: path))
        }
    }
}

extension Exchange {
    /// A daemon that is flooded, or that starts, has a full queue of connections for a moment, which is EAGAIN for a socket that
    /// does not block.
    fileprivate static let (repetitions, pause) = (10, TimeAmount.milliseconds(20))

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

/// The end of a connection's pipeline: sends one request after another, and delivers each answer.
final class AnswerReceiver: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    /// One request, and where its answer goes.
    struct Query {
        let request: ClientRequest
        let delivery: Exchange.Delivery
        let answer: EventLoopPromise<StreamedAnswer>
    }

    private enum State {
        /// No request is under way.
        case idle
        case waiting(Query)
        case gathering(Query, HTTPResponseHead)
        case streaming(AnswerBody.Pieces.Source)
        case done
    }

    private let client: UnixSocketClient
    /// Goes in front of the HTTP decoder.
    let count: AnswerByteCount
    /// The only request of the connection; nil where it is kept for several.
    private var only: Query?
    private let isKept: Bool
    private var state = State.idle
    private var gathered: [UInt8] = []
    private var wantsMore = true
    /// Answers that came on this connection.
    private var answered = 0
    private var failure: UnixSocketClientError?
    /// True once bytes came that are no whole answer.
    private var hasPartOfAnswer = false
    private var silence: Scheduled<Void>?
    /// The time in which nothing of a streamed answer may come while its reader waits for more.
    private var idle: Duration?

    init(client: UnixSocketClient, first: Query?) {
        self.client = client
        count = AnswerByteCount(mostBodyBytes: client.maximumAnswerBytes)
        only = first
        isKept = first == nil
    }

    func channelActive(context: ChannelHandlerContext) {
        do {
            try client.checkPeer(context.channel)
        } catch {
            only?.answer.fail(error)
            return context.close(promise: nil)
        }
        if let query = only {
            only = nil
            begin(query, on: context.channel)
        } else {
            // The other side's end is noticed while no request is under way.
            context.read()
        }
        context.fireChannelActive()
    }

    /// Sends a request. The one before must have been answered.
    func begin(_ query: Query, on channel: any Channel) {
        guard case .idle = state, channel.isActive else {
            query.answer.fail(UnixSocketClientError.closed(path: client.path))
            return
        }
        state = .waiting(query)
        gathered = []
        count.begin()
        // First: when sending fails because the other side has closed, NIO takes what is in the socket only where a read is
        // asked for, and an early refusal is there.
        channel.read()
        send(query, on: channel)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), state) {
        case (.head(let head), .waiting(let query)): begin(head, of: query, context)
        case (.body(let part), .gathering(let query, _)):
            guard gathered.count + part.readableBytes <= client.maximumAnswerBytes else {
                query.answer.fail(UnixSocketClientError.answerTooLarge(limit: client.maximumAnswerBytes))
                return
            }
            gathered.append(contentsOf: part.readableBytesView)
        case (.body(let part), .streaming(let source)):
            guard part.readableBytes > 0 else { return }
            wantsMore = source.yield(Array(part.readableBytesView)) == .produceMore
        case (.end, .gathering(let query, let head)):
            answered += 1
            let isReusable = isKept && head.isKeepAlive
            state = isReusable ? .idle : .done
            if !isReusable { context.close(promise: nil) }
            query.answer.succeed(streamed(head, .whole(gathered)))
        case (.end, .streaming(let source)):
            finish()
            source.finish()
            context.close(promise: nil)
        case (_, .idle):
            // Bytes that were not asked for.
            context.close(promise: nil)
        default: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        silence?.cancel()
        silence = nil
        switch state {
        case .idle, .waiting, .gathering: context.read()
        case .streaming where wantsMore: wantMore(context)
        case .streaming, .done: break
        }
        context.fireChannelReadComplete()
    }

    func wantMore(_ context: ChannelHandlerContext) {
        guard case .streaming = state else { return }
        wantsMore = true
        context.read()
        guard silence == nil, let idle else { return }
        let connection = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        silence = context.eventLoop.scheduleTask(in: TimeAmount(idle)) {
            let (receiver, context) = connection.value
            receiver.failure = .silent(path: receiver.client.path, for: idle)
            context.close(promise: nil)
        }
    }

    // An early refusal may break our own sending and be in the socket all the same: so an error is kept, and
    // counts only when the connection ends without an answer.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let isExceeded = error is AnswerByteCount.Exceeded
        if isExceeded {
            failure = .answerTooLarge(limit: client.maximumAnswerBytes)
        } else if failure == nil {
            failure = client.failure(of: error)
        }
        // After these the decoder reads no more. The last one is an answer that was not asked for.
        if isExceeded || error is HTTPParserError || error is NIOHTTPDecoderError {
            hasPartOfAnswer = true
            context.close(promise: nil)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        let failure = failure ?? .cutShort(path: client.path)
        switch state {
        case .waiting(let query):
            // A connection that was kept may have been closed before the request reached the other side.
            let isUnanswered = answered > 0 && !hasPartOfAnswer && failure == .cutShort(path: client.path)
            query.answer.fail(isUnanswered ? .closed(path: client.path) : failure)
        case .gathering(let query, _): query.answer.fail(failure)
        case .streaming(let source): source.finish(failure)
        case .idle, .done: break
        }
        finish()
        context.fireChannelInactive()
    }

    /// Writes the request as one message.
    private func send(_ query: Query, on channel: any Channel) {
        let request = query.request
        let type = if case .gathered = query.delivery { "application/json" } else { "*/*" }
        var headers: HTTPHeaders = ["Host": "localhost", "Accept": type]
        if !isKept { headers.add(name: "Connection", value: "close") }
        if let body = request.body {
            headers.add(name: "Content-Type", value: "application/json")
            headers.add(name: "Content-Length", value: String(body.count))
        }
        if let traceparent = request.traceparent { headers.add(name: "traceparent", value: traceparent) }
        if let onBehalfOf = request.onBehalfOf { headers.add(name: ClientName.header, value: onBehalfOf.text) }
        let head = HTTPRequestHead(
            version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.target, headers: headers)
        channel.write(HTTPClientRequestPart.head(head), promise: nil)
        if let body = request.body {
            let buffer = channel.allocator.buffer(bytes: body)
            channel.write(HTTPClientRequestPart.body(.byteBuffer(buffer)), promise: nil)
        }
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }

    private func begin(_ head: HTTPResponseHead, of query: Query, _ context: ChannelHandlerContext) {
        // 100 Continue and the like are no answer.
        guard head.status.code >= 200 else { return }
        guard case .streamed(let idle) = query.delivery, (200..<300).contains(head.status.code) else {
            state = .gathering(query, head)
            count.headHasEnded()
            return
        }
        count.stop()
        self.idle = idle
        let pieces = AnswerBody.Pieces.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: StreamReader(
                receiver: NIOLoopBound((self, context), eventLoop: context.eventLoop), eventLoop: context.eventLoop))
        state = .streaming(pieces.source)
        query.answer.succeed(streamed(head, .pieces(pieces.sequence)))
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
