import NIOCore
import NIOHTTP1
import NIOPosix

/// One request and its answer on a connection of their own.
struct Exchange: Sendable {
    let client: UnixSocketClient
    let request: ClientRequest

    func run() async throws -> ClientAnswer {
        // A path that does not fit is found here, before a connection is begun.
        let address = try SocketAddress(unixDomainSocketPath: client.path)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let answer = loop.makePromise(of: ClientAnswer.self)
        let (client, request) = (client, request)
        let connected = ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(client.deadline))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHTTPClientHandlers()
                    try pipeline.addHandler(AnswerCollector(client: client, request: request, answer: answer))
                }
            }
            .connect(to: address)
        connected.whenFailure { answer.fail($0) }
        let deadline = loop.scheduleTask(in: TimeAmount(client.deadline)) {
            answer.fail(UnixSocketClientError.deadlineExceeded(path: client.path, after: client.deadline))
        }
        // However it ends, the connection does too.
        answer.futureResult.whenComplete { _ in
            deadline.cancel()
            connected.whenSuccess { $0.close(promise: nil) }
        }
        return try await withTaskCancellationHandler {
            try await answer.futureResult.get()
        } onCancel: {
            answer.fail(UnixSocketClientError.cutShort(path: client.path))
        }
    }
}

/// Sends the request as soon as the connection stands, and gathers the answer within its limit.
private final class AnswerCollector: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let client: UnixSocketClient
    private let request: ClientRequest
    private let answer: EventLoopPromise<ClientAnswer>
    private var head: HTTPResponseHead?
    private var body: [UInt8] = []
    private var failure: UnixSocketClientError?

    init(client: UnixSocketClient, request: ClientRequest, answer: EventLoopPromise<ClientAnswer>) {
        self.client = client
        self.request = request
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        request.send(on: context, accepting: "application/json", wrap: wrapOutboundOut)
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
        case .body(let part):
            guard body.count + part.readableBytes <= client.maximumAnswerBytes else {
                answer.fail(UnixSocketClientError.answerTooLarge(limit: client.maximumAnswerBytes))
                return
            }
            body.append(contentsOf: part.readableBytesView)
        case .end:
            guard let head else { return }
            let headers = head.headers.map { (name: $0.name, value: $0.value) }
            answer.succeed(ClientAnswer(status: Int(head.status.code), headers: headers, body: body))
        }
    }

    // An early refusal may break our own sending and stand in the socket all the same: so an error is kept, and
    // counts only when the connection ends without an answer.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if failure == nil { failure = client.failure(of: error) }
        if error is HTTPParserError { context.close(promise: nil) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        answer.fail(failure ?? .cutShort(path: client.path))
        context.fireChannelInactive()
    }
}

extension ClientRequest {
    /// Writes the request as one message. The connection serves no other.
    func send(
        on context: ChannelHandlerContext, accepting type: String, wrap: (HTTPClientRequestPart) -> NIOAny
    ) {
        var headers: HTTPHeaders = ["Host": "localhost", "Accept": type, "Connection": "close"]
        if let body {
            headers.add(name: "Content-Type", value: "application/json")
            headers.add(name: "Content-Length", value: String(body.count))
        }
        let head = HTTPRequestHead(
            version: .http1_1, method: HTTPMethod(rawValue: method), uri: target, headers: headers)
        context.write(wrap(.head(head)), promise: nil)
        if let body {
            context.write(wrap(.body(.byteBuffer(context.channel.allocator.buffer(bytes: body)))), promise: nil)
        }
        context.writeAndFlush(wrap(.end(nil)), promise: nil)
    }
}
