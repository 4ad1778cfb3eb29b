import NIOCore
import NIOHTTP1
import Refusals

/// One connection: reads a request, has it answered, and only then reads the next.
///
/// While a request is being answered at most one read takes place, so a connection holds at most one body, one answer and
/// what two reads brought. All methods run on the channel's event loop.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// Sent through the pipeline when the program stops.
    struct Drain: Sendable {}

    private typealias Responder = @Sendable ([UInt8]) async -> HTTPAnswer

    private enum State {
        /// Between requests, or within a head.
        case idle
        case receiving(body: ByteBuffer?, limit: Int, respond: Responder)
        /// Answered after the head; the small rest of the body is thrown away.
        case discarding(left: Int)
        case responding
        case streaming(OutgoingStream)
        case writing
        /// The last answer is written; the peer is given time to read it.
        case lingering
        case closed
    }

    private enum Incoming {
        case part(HTTPServerRequestPart)
        case headTooLarge
        case notHTTP
    }

    private let handler: any RequestHandler
    private let limits: RequestLimits
    private let input: BoundedInput
    /// Where requests are answered; nil for the concurrency runtime's threads.
    private let executor: EventLoopExecutor?

    private var state = State.idle
    private var queue = CircularBuffer<Incoming>(initialCapacity: 4)
    private var framing = AnswerFraming()
    private var idleSince = NIODeadline.now()
    private var requestDeadline: Scheduled<Void>?
    private var idleTimer: Scheduled<Void>?
    private var isReading = false
    private var isAdvancing = false
    private var isDraining = false
    /// No request has begun yet.
    private var isFresh = true
    /// The peer has sent its last byte.
    private var inputClosed = false
    /// An early refusal is on its way; the connection waits for its write as well as for the rest of the body.
    private var refusalInFlight = false

    init(
        handler: any RequestHandler, limits: RequestLimits, input: BoundedInput,
        executor: EventLoopExecutor?
    ) {
        self.handler = handler
        self.limits = limits
        self.input = input
        self.executor = executor
    }

    // MARK: Events of the channel

    func channelActive(context: ChannelHandlerContext) {
        armIdleTimer(context, in: limits.idle)
        read(context)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        switch part {
        case .head(let head):
            // MessageFraming refuses an ambiguous length, so it does not matter how the input counts one.
            input.headEnded(
                bodyLength: head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0,
                isChunked: head.headers.contains(name: "transfer-encoding"))
        case .body: break
        case .end: input.messageEnded()
        }
        queue.append(.part(part))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        advance(context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else { return close(context) }
        // The decoder takes nothing any more; requests before the wrong bytes are still answered.
        input.discard(atMost: 0)
        queue.append(error == .headerOverflow ? .headTooLarge : .notHTTP)
        advance(context)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is Drain:
            isDraining = true
            if case .streaming(let stream) = state { stream.drain() }
            guard case .idle = state, queue.isEmpty, input.bytesSinceBoundary == 0 else { break }
            if isFresh { awaitFirstRequest(context) } else { close(context) }
        case ChannelEvent.inputClosed:
            inputClosed = true
            if case .lingering = state { close(context) } else { advance(context) }
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        close(context)
    }

    /// A peer that connected just before the end does not know of it, and its request is on its way: it is answered if it comes
    /// soon, instead of finding the connection closed.
    private func awaitFirstRequest(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.firstRequestWhileDraining) {
            if case .idle = self.state, self.queue.isEmpty, self.input.bytesSinceBoundary == 0 { self.close(context) }
        }
    }

    // MARK: One request after the other

    /// Takes what has come in as far as the state allows, then asks for more if more is wanted.
    private func advance(_ context: ChannelHandlerContext) {
        guard !isAdvancing else { return }
        isAdvancing = true
        defer { isAdvancing = false }
        while let next = takeNext() {
            switch next {
            case .notHTTP:
                // The peer broke off in a body that is thrown away: its request has been answered already.
                if case .discarding = state { close(context) } else { last(HTTPAnswer(status: 400), context) }
            case .headTooLarge:
                refuse(.requestTooLarge, "The request's head is too large; send fewer or shorter headers.", context)
            case .part(.head(let head)): begin(head, context)
            case .part(.body(let part)): receive(part, context)
            case .part(.end): end(context)
            }
        }
        wantMore(context)
    }

    private func takeNext() -> Incoming? {
        switch state {
        case .idle, .receiving, .discarding: queue.popFirst()
        case .responding, .streaming, .writing, .lingering, .closed: nil
        }
    }

    private func wantMore(_ context: ChannelHandlerContext) {
        switch state {
        case .idle where input.bytesSinceBoundary == 0:
            if inputClosed || (isDraining && !refusalInFlight && !isFresh) { close(context) } else { read(context) }
        case .idle, .receiving, .discarding:
            if case .receiving(_, let limit, _) = state, input.bytesSinceBoundary > 8 * limit + 65_536 {
                // Chunk sizes and extensions are not counted as body, and can be many times as large.
                return refuse(.requestTooLarge, "The body's chunks are too small for its length.", context)
            }
            if inputClosed { return close(context) }
            armRequestDeadline(context)
            read(context)
        case .lingering:
            if input.discardAllowance ?? 0 > 0 { read(context) } else { close(context) }
        case .responding, .streaming, .writing, .closed: break
        }
    }

    private func begin(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        guard case .idle = state else { return }
        isFresh = false
        let message: MessageFraming
        do throws(MessageFraming.Flaw) {
            message = try MessageFraming(head)
        } catch {
            framing = .init(omitsBody: head.method == .HEAD, isHTTP10: head.version == .http1_0, closes: true)
            return switch error {
            case .ambiguousLength: last(HTTPAnswer(status: 400), context)
            case .target:
                refuse(.malformedRequest, "The request's target is too long or not well encoded.", context)
            }
        }
        framing = message.answer
        let length = message.head.contentLength
        switch handler.admit(message.head) {
        case .refuse(let answer):
            // The rest of a small body is read and thrown away, so that a pool of connections survives its 403s.
            // Otherwise nothing more is read: the peer may be sending gigabytes, or wait for “100 Continue”.
            guard let length, length <= limits.discardedBody, !message.expectsContinue else {
                return last(answer, context)
            }
            state = .discarding(left: length)
            refusalInFlight = true
            write(answer, context)
        case .accept(let limit, let respond):
            if let length, length > limit {
                return refuse(
                    .requestTooLarge, "The body is larger than \(limit) bytes, which is the most.", context)
            }
            state = .receiving(body: nil, limit: limit, respond: respond)
            if message.expectsContinue, queue.isEmpty {
                let interim = HTTPResponseHead(version: .http1_1, status: .continue)
                context.writeAndFlush(wrapOutboundOut(.head(interim)), promise: nil)
            }
        }
    }

    private func receive(_ part: ByteBuffer, _ context: ChannelHandlerContext) {
        switch state {
        case .receiving(var body, let limit, let respond):
            guard (body?.readableBytes ?? 0) + part.readableBytes <= limit else {
                return refuse(
                    .requestTooLarge, "The body is larger than \(limit) bytes, which is the most.", context)
            }
            if body == nil { body = part } else { body?.writeImmutableBuffer(part) }
            state = .receiving(body: body, limit: limit, respond: respond)
        case .discarding(let left): state = .discarding(left: left - part.readableBytes)
        default: break
        }
    }

    private func end(_ context: ChannelHandlerContext) {
        disarmRequestDeadline()
        switch state {
        case .receiving(let body, _, let respond):
            state = .responding
            // The kernel keeps watching the socket: not to read until the answer has left would take two calls of the
            // system a request, one to stop watching and one to begin again.
            read(context)
            let bytes = body.map { Array(buffer: $0) } ?? []
            let connection = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            let eventLoop = context.eventLoop
            Task(executorPreference: executor) {
                let answer = await respond(bytes)
                let answered: @Sendable () -> Void = {
                    let (handler, context) = connection.value
                    guard case .responding = handler.state else { return answer.abandon() }
                    handler.state = .writing
                    handler.write(answer, context)
                }
                if eventLoop.inEventLoop { answered() } else { eventLoop.execute(answered) }
            }
        case .discarding:
            state = .writing
            if !refusalInFlight { nextRequest(context) }
        default: break
        }
    }

    // MARK: Answers

    private func refuse(_ code: RefusalCode, _ message: String, _ context: ChannelHandlerContext) {
        last(handler.answer(for: Refusal(code, message)), context)
    }

    /// The last answer on this connection, while the peer may still be sending.
    private func last(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        disarmRequestDeadline()
        queue.removeAll()
        framing.closes = true
        state = .lingering
        input.discard(atMost: limits.lingerBytes)
        write(parts(of: answer, context), context, promise: nil)
        context.close(mode: .output, promise: nil)
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.linger) { self.close(context) }
        if inputClosed { close(context) }
    }

    private func write(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        framing.closes = framing.closes || answer.closes || isDraining || (inputClosed && queue.isEmpty)
        if case .stream(let body) = answer.body, !framing.omitsBody {
            return stream(body, of: answer, context)
        }
        answer.abandon()
        send(parts(of: answer, context), context)
    }

    private func stream(_ body: BodyStream, of answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        let transfer = BodyTransfer(of: body, isHTTP10: framing.isHTTP10)
        if transfer == .untilClose { framing.closes = true }
        write(parts(of: answer, context), context, promise: nil)
        let stream = OutgoingStream(body, transfer: transfer, channel: context.channel)
        state = .streaming(stream)
        stream.start { [self] isWhole in
            guard case .streaming = state else { return }
            guard isWhole else { return close(context) }
            state = .writing
            send([.end(nil)], context)
        }
        // The program began to stop before this answer was ready.
        if isDraining { stream.drain() }
    }

    private func parts(of answer: HTTPAnswer, _ context: ChannelHandlerContext) -> [HTTPServerResponsePart] {
        answer.parts(framing, allocator: context.channel.allocator)
    }

    /// In one write to the socket.
    private func write(
        _ parts: [HTTPServerResponsePart], _ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?
    ) {
        for part in parts.dropLast() { context.write(wrapOutboundOut(part), promise: nil) }
        if let last = parts.last { context.writeAndFlush(wrapOutboundOut(last), promise: promise) }
    }

    /// Sends what ends an answer.
    private func send(_ parts: [HTTPServerResponsePart], _ context: ChannelHandlerContext) {
        idleSince = .now()
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { result in
            switch result {
            case .success: self.written(context)
            case .failure: self.close(context)
            }
        }
        write(parts, context, promise: written)
    }

    private func written(_ context: ChannelHandlerContext) {
        refusalInFlight = false
        if case .writing = state { nextRequest(context) }
    }

    private func nextRequest(_ context: ChannelHandlerContext) {
        if framing.closes { return close(context) }
        state = .idle
        framing = .init()
        idleSince = .now()
        advance(context)
    }

    private func read(_ context: ChannelHandlerContext) {
        guard !isReading else { return }
        isReading = true
        context.read()
    }

    private func close(_ context: ChannelHandlerContext) {
        switch state {
        case .closed: return
        case .streaming(let stream): stream.cancel()
        default: break
        }
        state = .closed
        queue.removeAll()
        disarmRequestDeadline()
        idleTimer?.cancel()
        context.close(promise: nil)
    }

    // MARK: Time

    private func armRequestDeadline(_ context: ChannelHandlerContext) {
        guard requestDeadline == nil else { return }
        requestDeadline = context.eventLoop.assumeIsolated().scheduleTask(in: limits.request) { [self] in
            requestDeadline = nil
            switch state {
            case .idle, .receiving:
                refuse(
                    .requestTimeout, "The request was not complete in time; send head and body within 10 seconds.",
                    context)
            case .discarding: close(context)
            case .responding, .streaming, .writing, .lingering, .closed: break
            }
        }
    }

    private func disarmRequestDeadline() {
        requestDeadline?.cancel()
        requestDeadline = nil
    }

    /// One timer that looks at the clock when it fires, rather than one more for each request.
    private func armIdleTimer(_ context: ChannelHandlerContext, in delay: TimeAmount) {
        idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.idleTimerFired(context) }
    }

    private func idleTimerFired(_ context: ChannelHandlerContext) {
        let since: NIODeadline?
        switch state {
        case .closed: return
        // A peer that does not read its answer is idle too.
        case .idle where requestDeadline == nil, .writing: since = idleSince
        case .streaming(let stream): since = stream.owedSince
        default: since = nil
        }
        let now = NIODeadline.now()
        guard let since else { return armIdleTimer(context, in: limits.idle) }
        let end = since + limits.idle
        if end <= now { close(context) } else { armIdleTimer(context, in: end - now) }
    }
}
