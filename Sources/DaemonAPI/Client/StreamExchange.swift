import NIOCore
import NIOHTTP1
import NIOPosix

extension UnixSocketClient {
    /// Asks for what may be long, or have no end.
    ///
    /// - Parameter idle: how long nothing may come of the body while it is waited for; nil waits for ever. Until the
    ///   answer's head has come, ``deadline`` counts.
    public func stream(
        _ request: ClientRequest, idle: Duration? = .seconds(60)
    ) async throws(UnixSocketClientError) -> StreamedAnswer {
        do {
            return try await StreamExchange(client: self, request: request, idle: idle).run()
        } catch let error as UnixSocketClientError {
            throw error
        } catch {
            throw failure(of: error)
        }
    }
}

/// One request and its streamed answer on a connection of their own.
private struct StreamExchange: Sendable {
    let client: UnixSocketClient
    let request: ClientRequest
    let idle: Duration?

    func run() async throws -> StreamedAnswer {
        let address = try SocketAddress(unixDomainSocketPath: client.path)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = loop.makePromise(of: StreamedAnswer.self)
        let (client, request, idle) = (client, request, idle)
        let connected = ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(client.deadline))
            .channelOption(.autoRead, value: false)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(
                        StreamReceiver(
                            client: client, request: request, idle: idle.map { TimeAmount($0) }, answer: answer))
                }
            }
            .connect(to: address)
        connected.whenFailure { answer.fail($0) }
        let deadline = loop.scheduleTask(in: TimeAmount(client.deadline)) {
            answer.fail(UnixSocketClientError.deadlineExceeded(path: client.path, after: client.deadline))
        }
        answer.futureResult.whenComplete { _ in deadline.cancel() }
        answer.futureResult.whenFailure { _ in connected.whenSuccess { $0.close(promise: nil) } }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            answer.fail(UnixSocketClientError.cutShort(path: client.path))
        }
    }
}

/// Has the socket read when the body's reader wants more, and closes it when there is none any more.
struct StreamReader: NIOAsyncSequenceProducerDelegate {
    fileprivate let receiver: NIOLoopBound<(StreamReceiver, ChannelHandlerContext)>
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

/// Sends the request, gives the answer's head, and passes the body on as it is asked for.
private final class StreamReceiver: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private enum State {
        case waiting
        case refused(HTTPResponseHead, body: [UInt8])
        case streaming(AnswerBody.Pieces.Source)
        case done
    }

    private let client: UnixSocketClient
    private let request: ClientRequest
    private let idle: TimeAmount?
    private let answer: EventLoopPromise<StreamedAnswer>
    private var state = State.waiting
    private var wantsMore = true
    private var failure: UnixSocketClientError?
    private var silence: Scheduled<Void>?

    init(
        client: UnixSocketClient, request: ClientRequest, idle: TimeAmount?, answer: EventLoopPromise<StreamedAnswer>
    ) {
        self.client = client
        self.request = request
        self.idle = idle
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        request.send(on: context, accepting: "*/*", wrap: wrapOutboundOut)
        context.read()
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch (unwrapInboundIn(data), state) {
        case (.head(let head), .waiting): begin(head, context)
        case (.body(let part), .refused(let head, var body)):
            guard body.count + part.readableBytes <= client.maximumAnswerBytes else {
                answer.fail(UnixSocketClientError.answerTooLarge(limit: client.maximumAnswerBytes))
                return
            }
            body.append(contentsOf: part.readableBytesView)
            state = .refused(head, body: body)
        case (.body(let part), .streaming(let source)):
            guard part.readableBytes > 0 else { return }
            wantsMore = source.yield(Array(part.readableBytesView)) == .produceMore
        case (.end, .refused(let head, let body)):
            state = .done
            answer.succeed(streamed(head, .whole(body)))
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
        case .waiting, .refused: context.read()
        case .streaming where wantsMore: wantMore(context)
        case .streaming, .done: break
        }
        context.fireChannelReadComplete()
    }

    func wantMore(_ context: ChannelHandlerContext) {
        guard case .streaming = state else { return }
        wantsMore = true
        context.read()
        guard let idle, silence == nil else { return }
        let connection = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        silence = context.eventLoop.scheduleTask(in: idle) {
            let (receiver, context) = connection.value
            receiver.failure = .silent(path: receiver.client.path, for: Duration(idle))
            context.close(promise: nil)
        }
    }

    // An early refusal may break our own sending and stand in the socket all the same: so an error is kept, and
    // counts only when the connection ends without an answer.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
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

    private func begin(_ head: HTTPResponseHead, _ context: ChannelHandlerContext) {
        guard (200..<300).contains(head.status.code) else {
            // 100 Continue and the like are no answer.
            if head.status.code >= 200 { state = .refused(head, body: []) }
            return
        }
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
