import NIOCore
import NIOHTTP1
import NIOPosix
import NIOTLS

/// The last handler of a connection's pipeline. NIO may open several connections to one destination, of which one is
/// chosen for use. On the chosen connection, this handler adds the handlers for TLS and HTTP in front of itself. It
/// then sends one request after another and delivers each answer within its bounds. Anything unexpected closes the
/// connection.
final class HTTPExchange: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart

    private struct Query {
        let request: HTTPRequest
        let answer: EventLoopPromise<HTTPResponse>
    }

    private enum State {
        /// The promise is nil until ``open(before:_:)`` chooses the connection.
        case opening(EventLoopPromise<HTTPConnection>?)
        case idle
        case asked(Query)
        case gathering(Query, HTTPResponseHead)
        case streaming(HTTPBody.Pieces.Source, idle: Duration?)
        case closed
    }

    private let destination: HTTPDestination
    private var state = State.opening(nil)
    private var phase = HTTPFault.Phase.connecting
    /// The handler's context while the connection is open.
    private var context: ChannelHandlerContext?
    private var isActive = false
    /// The counters of the answer's bytes: before the HTTP decoder, and before TLS.
    private var counts: [AnswerByteCount] = []
    private var body: [UInt8] = []
    private var wantsMore = true
    /// The first fault; later ones are its consequences.
    private var first: HTTPFault.Cause?
    private var alarm: Scheduled<Void>?

    init(_ destination: HTTPDestination) { self.destination = destination }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        fail(.ended)
        self.context = nil
    }

    // MARK: Opening

    /// Chooses this connection for use.
    func open(before deadline: ContinuousClock.Instant, _ ready: EventLoopPromise<HTTPConnection>) {
        guard case .opening = state else { return ready.fail(HTTPFault(phase, first ?? .ended)) }
        state = .opening(ready)
        watch(ContinuousClock.now.duration(to: deadline), .late)
        if isActive { prepare() }
    }

    func channelActive(context: ChannelHandlerContext) {
        isActive = true
        prepare()
        context.fireChannelActive()
    }

    private func prepare() {
        guard case .opening(_?) = state, let channel = context?.channel else { return }
        destination.prepare(channel).assumeIsolated().whenComplete { result in
            do {
                try result.get()
                try self.addHandlers(channel.pipeline.syncOperations)
            } catch { self.fail(.error(error)) }
        }
    }

    private func addHandlers(_ pipeline: ChannelPipeline.SynchronousOperations) throws {
        counts = [AnswerByteCount(maximumBodyBytes: destination.maximumBodyBytes)]
        if let tls = destination.tls {
            phase = .securing
            counts.append(.ofConnection())
            try pipeline.addHandlers([counts[1]] + tls(), position: .before(self))
        }
        try pipeline.addHandler(counts[0], position: .before(self))
        try pipeline.addHTTPClientHandlers(position: .before(self))
        if destination.tls == nil { isReady() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted = event { isReady() }
        context.fireUserInboundEventTriggered(event)
    }

    private func isReady() {
        guard case .opening(let ready?) = state, let channel = context?.channel else { return }
        alarm?.cancel()
        (state, phase) = (.idle, .idle)
        ready.succeed(HTTPConnection(self, channel))
    }

    // MARK: A request

    /// Sends a request, without repeating it.
    func ask(
        _ request: HTTPRequest, before deadline: ContinuousClock.Instant, _ answer: EventLoopPromise<HTTPResponse>
    ) {
        guard case .idle = state, let channel = context?.channel, channel.isActive else {
            return answer.fail(HTTPFault(.idle, first ?? .ended))
        }
        state = .asked(Query(request: request, answer: answer))
        // This is the last check of the clock. After it, the request counts as sent.
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { return fail(.late) }
        phase = .asked
        schedule(left) { exchange in exchange.watch(request.atDeadline(), .late) }
        body = []
        for count in counts { count.begin() }
        channel.write(HTTPClientRequestPart.head(request.head), promise: nil)
        if let body = request.body { channel.write(HTTPClientRequestPart.body(.byteBuffer(body)), promise: nil) }
        channel.writeAndFlush(HTTPClientRequestPart.end(nil), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // The HTTP handlers are not in place yet. Raw bytes that arrive now belong to a connection that was not chosen
        // for use.
        if case .opening = state { return }
        switch (unwrapInboundIn(data), state) {
        case (.head(let head), .asked(let query)): begin(head, of: query, context)
        case (.body(let part), .gathering(let query, let head)):
            guard body.count + part.readableBytes <= destination.maximumBodyBytes else { return fail(.tooLarge) }
            body.append(contentsOf: part.readableBytesView)
            if !head.isFramed { end(head, of: query) }
        case (.body(let part), .streaming(let source, _)):
            guard part.readableBytes > 0 else { return }
            wantsMore = source.yield(Array(part.readableBytesView)) == .produceMore
        case (.end, .gathering(let query, let head)): end(head, of: query)
        case (.end, .streaming(let source, _)):
            source.finish()
            close()
        case (_, .closed): break
        default: fail(.notHTTP)
        }
    }

    private func begin(_ head: HTTPResponseHead, of query: Query, _ context: ChannelHandlerContext) {
        // The decoder drops interim answers except 101, which was not requested.
        guard head.status.code >= 200 else { return fail(.notHTTP) }
        phase = .answering
        guard case .streamed(let idle) = query.request.delivery, head.isFramed, (200..<300).contains(head.status.code)
        else {
            state = .gathering(query, head)
            for count in counts { count.headHasEnded() }
            let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
            return length > destination.maximumBodyBytes ? fail(.tooLarge) : ()
        }
        for count in counts { count.stop() }
        alarm?.cancel()
        // From here on the body's reader triggers the reads of the socket.
        _ = try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        let pieces = HTTPBody.Pieces.makeSequence(
            backPressureStrategy: .init(lowWatermark: 2, highWatermark: 8), finishOnDeinit: true,
            delegate: HTTPBodyReader(
                exchange: NIOLoopBound(self, eventLoop: context.eventLoop), eventLoop: context.eventLoop))
        state = .streaming(pieces.source, idle: idle)
        query.answer.succeed(
            HTTPResponse(head: head, body: .pieces(pieces.sequence), isFramed: true, isReusable: false))
    }

    private func end(_ head: HTTPResponseHead, of query: Query) {
        let isFramed = head.isFramed || body.isEmpty
        let isReusable =
            query.request.head.isKeepAlive && head.isKeepAlive && head.version == .http1_1 && isFramed
        alarm?.cancel()
        (state, phase) = (.idle, .idle)
        if !isReusable { close() }
        query.answer.succeed(
            HTTPResponse(head: head, body: .whole(body), isFramed: isFramed, isReusable: isReusable))
        body = []
    }

    // MARK: A streamed body

    func channelReadComplete(context: ChannelHandlerContext) {
        if case .streaming = state {
            alarm?.cancel()
            alarm = nil
            if wantsMore { wantMore() }
        }
        context.fireChannelReadComplete()
    }

    func wantMore() {
        guard case .streaming(_, let idle) = state else { return }
        wantsMore = true
        context?.read()
        if let idle, alarm == nil { watch(idle, .silent(idle)) }
    }

    // MARK: The end

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        switch error {
        // Sending may fail because the server has already refused the request and closed the connection. The socket
        // still has the refusal to read, and the end of the connection follows.
        case is IOError, is ChannelError: break
        case is AnswerByteCount.Exceeded, HTTPParserError.headerOverflow: fail(.tooLarge)
        case HTTPParserError.invalidEOFState:
            phase = .answering
            fail(.ended)
        case is HTTPParserError, is NIOHTTPDecoderError: fail(.notHTTP)
        default: fail(.error(error))
        }
    }

    /// Ends the connection and the exchange under way.
    private func fail(_ cause: HTTPFault.Cause) {
        first = first ?? cause
        let fault = HTTPFault(phase, cause)
        switch state {
        case .opening(let ready): ready?.fail(fault)
        case .asked(let query), .gathering(let query, _): query.answer.fail(fault)
        case .streaming(let source, _): source.finish(fault)
        case .idle, .closed: break
        }
        close()
    }

    func close() {
        state = .closed
        alarm?.cancel()
        alarm = nil
        context?.close(promise: nil)
    }

    /// Ends the connection after this time, unless a later call replaces the timer.
    private func watch(_ time: Duration, _ cause: HTTPFault.Cause) {
        guard time > .zero else { return fail(cause) }
        schedule(time) { $0.fail(cause) }
    }

    private func schedule(_ time: Duration, _ body: @escaping (HTTPExchange) -> Void) {
        alarm?.cancel()
        alarm = context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(time)) { body(self) }
    }
}

/// Reads the socket when the body's reader wants more, and closes the connection when there is no reader any more.
package struct HTTPBodyReader: NIOAsyncSequenceProducerDelegate {
    fileprivate let exchange: NIOLoopBound<HTTPExchange>
    fileprivate let eventLoop: any EventLoop

    package func produceMore() { eventLoop.execute { exchange.value.wantMore() } }

    package func didTerminate() { eventLoop.execute { exchange.value.close() } }
}

extension HTTPResponseHead {
    /// True if the head determines the end of the body, by a length or by chunks.
    fileprivate var isFramed: Bool {
        headers.contains(name: "content-length")
            || headers[canonicalForm: "transfer-encoding"].last?.lowercased() == "chunked"
    }
}

extension Error {
    /// Returns true if no address was found to connect to.
    var isNameResolutionFailure: Bool {
        guard let error = self as? NIOConnectionError else { return false }
        return error.connectionErrors.isEmpty && (error.dnsAError != nil || error.dnsAAAAError != nil)
    }
}
