import NIOCore
import NIOHTTP1

/// One connection: reads a request, has it answered, and only then reads the next.
///
/// The socket is not read while bytes of an earlier read wait to be decoded, and at most once while a request is being
/// answered. So a connection holds at most one body, one answer and the bytes of two reads. Each request is decoded and begun
/// in a turn of its source (``LoopTurns``). All methods run on the channel's event loop.
final class ConnectionHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    /// The event that the pipeline receives when the program stops.
    struct Drain: Sendable {}

    typealias Responder = @Sendable ([UInt8]) async -> HTTPAnswer

    enum State {
        /// The connection is between requests, or within a request's head.
        case idle
        case receiving(limit: Int, respond: Responder)
        /// The request was answered after its head; the small rest of the body is discarded.
        case discarding(left: Int)
        case responding
        case streaming(OutgoingStream)
        case writing
        /// The last answer is written, and the peer gets time to read it before the connection is closed.
        case lingering
        case closed
    }

    private enum Incoming {
        case part(HTTPServerRequestPart)
        case headTooLarge
        case bodyTooLarge(limit: Int)
        case tooManyChunks
        case notHTTP
    }

    /// The connection's turn on the event loop.
    private enum Turn { case none, awaited, begun }

    private let handler: any RequestHandler
    let limits: RequestLimits
    private let input: BoundedInput
    /// The executor that answers requests; nil for the threads of the concurrency runtime.
    private let executor: EventLoopExecutor?
    private let share: @Sendable () -> TurnShare
    private let turns: LoopTurns
    private let origin: RequestOrigin
    var state = State.idle
    /// The decoder's output for the last bytes that it received.
    private var queue = CircularBuffer<Incoming>(initialCapacity: 4)
    /// The part of the current request's body that has arrived.
    private var body: ByteBuffer?
    private var framing = AnswerFraming()
    var idleSince = NIODeadline.now()
    var requestDeadline: Scheduled<Void>?
    var idleTimer: Scheduled<Void>?
    private var isReading = false
    private var turn = Turn.none
    /// True if the current turn has answered a request, or decoded as many chunks as it may; the rest waits.
    private var turnIsOver = false
    private var isDraining = false
    /// True until the first request begins.
    private var isFresh = true
    /// True once the peer has sent its last byte.
    private var inputClosed = false
    /// True while an early refusal is being sent. The connection waits for the write and for the rest of the body.
    private var refusalInFlight = false

    init(
        handler: any RequestHandler, limits: RequestLimits, input: BoundedInput,
        executor: EventLoopExecutor?, share: @escaping @Sendable () -> TurnShare, turns: LoopTurns
    ) {
        self.handler = handler
        self.limits = limits
        self.input = input
        self.executor = executor
        self.share = share
        self.turns = turns
        origin = RequestOrigin(share: share, turns: executor == nil ? nil : turns)
    }

    // MARK: Events of the channel

    func channelActive(context: ChannelHandlerContext) {
        armIdleTimer(context, in: limits.idle)
        read(context)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data).trimmed
        switch part {
        case .head(let head):
            // MessageFraming rejects an ambiguous length, so it does not matter which length the input counts.
            input.headEnded(
                bodyLength: head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0,
                isChunked: head.headers.contains(name: "transfer-encoding"))
        case .body(let bytes):
            // A part of a body is not queued: a part can be a single byte, and a queued part takes dozens of bytes.
            if queue.isEmpty { return receive(bytes) }
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
        // The decoder accepts no more bytes. Requests before the invalid bytes are still answered.
        input.discard(atMost: 0)
        queue.append(error == .headerOverflow ? .headTooLarge : .notHTTP)
        advance(context)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case is Drain:
            isDraining = true
            if case .streaming(let stream) = state { stream.drain() }
            guard isBetweenRequests else { break }
            if isFresh { awaitFirstRequest(context) } else { close(context) }
        case ChannelEvent.inputClosed:
            inputClosed = true
            if case .lingering = state { close(context) } else { advance(context) }
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func channelInactive(context: ChannelHandlerContext) { close(context) }

    var isBetweenRequests: Bool {
        guard case .idle = state else { return false }
        return queue.isEmpty && !input.holdsBytes && input.bytesSinceBoundary == 0
    }

    // MARK: One request after the other

    /// Waits for the turn of the connection's source, and then processes the received input as far as the connection's
    /// state allows. Reads more if there is no input to process.
    private func advance(_ context: ChannelHandlerContext) {
        guard turn == .none else { return }
        guard takesInput, !queue.isEmpty || input.holdsBytes else { return wantMore(context) }
        turn = .awaited
        turns.take(of: share()) { self.takeTurn(context) }
    }

    /// Continues until a request is answered or being answered, the turn is used up, or no input is left.
    private func takeTurn(_ context: ChannelHandlerContext) {
        turn = .begun
        turnIsOver = false
        while !turnIsOver, let next = takeNext() {
            switch next {
            case .notHTTP:
                // The peer stopped within a body that is discarded; its request has already been answered.
                if case .discarding = state { close(context) } else { last(HTTPAnswer(status: 400), context) }
            case .headTooLarge:
                refuse(.tooLarge, "The request's head is too large; send fewer or shorter headers.", context)
            case .bodyTooLarge(let limit): refuseBody(over: limit, context)
            case .tooManyChunks:
                refuse(
                    .tooLarge,
                    "The body has more than \(BoundedInput.maximumChunks) chunks; send fewer, or its length.",
                    context)
            case .part(.head(let head)): begin(head, context)
            case .part(.body(let part)): receive(part)
            case .part(.end): end(context)
            }
        }
        turn = .none
        turns.end()
        if turnIsOver { advance(context) } else { wantMore(context) }
    }

    private var takesInput: Bool {
        switch state {
        case .idle, .receiving, .discarding: true
        case .responding, .streaming, .writing, .lingering, .closed: false
        }
    }

    private func takeNext() -> Incoming? {
        guard takesInput else { return nil }
        while queue.isEmpty {
            guard !turnIsOver, input.passOn() else { return nil }
            turnIsOver = input.endsTurn
        }
        return queue.popFirst()
    }

    private func wantMore(_ context: ChannelHandlerContext) {
        switch state {
        case .idle where input.bytesSinceBoundary == 0:
            if inputClosed || (isDraining && !refusalInFlight && !isFresh) { close(context) } else { read(context) }
        case .idle, .receiving, .discarding:
            if case .receiving(let limit, _) = state {
                if input.announcedBytes > limit { return refuseBody(over: limit, context) }
                // Chunk sizes and extensions do not count as body, and can be many times as large.
                if input.bytesSinceBoundary > 8 * limit + 65_536 {
                    return refuse(.tooLarge, "The body's chunks are too small for its length.", context)
                }
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
            case .malformed(let message): refuse(.malformed, message, context)
            }
        }
        framing = message.answer
        let length = message.head.contentLength
        var admitted = message.head
        admitted.origin = origin
        switch handler.admit(admitted) {
        case .refuse(let answer):
            // The rest of a small body is read and discarded, so that a client's pooled connections stay open after a
            // 403. Otherwise no more is read: the peer may be sending gigabytes, or wait for “100 Continue”.
            guard let length, length <= limits.discardedBody, !message.expectsContinue else {
                return last(answer, context)
            }
            state = .discarding(left: length)
            refusalInFlight = true
            write(answer, context)
        case .accept(let limit, let respond):
            if let length, length > limit { return refuseBody(over: limit, context) }
            state = .receiving(limit: limit, respond: respond)
            if message.expectsContinue, queue.isEmpty, !input.holdsBytes {
                let interim = HTTPResponseHead(version: .http1_1, status: .continue)
                context.writeAndFlush(wrapOutboundOut(.head(interim)), promise: nil)
            }
        }
    }

    private func receive(_ part: ByteBuffer) {
        switch state {
        case .receiving(let limit, _):
            if input.chunkCount > BoundedInput.maximumChunks { return queue.append(.tooManyChunks) }
            guard (body?.readableBytes ?? 0) + part.readableBytes <= limit else {
                return queue.append(.bodyTooLarge(limit: limit))
            }
            if body == nil { body = part } else { body?.writeImmutableBuffer(part) }
        case .discarding(let left): state = .discarding(left: left - part.readableBytes)
        default: break
        }
    }

    private func end(_ context: ChannelHandlerContext) {
        disarmRequestDeadline()
        switch state {
        case .receiving(_, let respond):
            state = .responding
            // The kernel keeps watching the socket. Pausing the reads until the answer is sent would take two system calls
            // per request, one to stop watching and one to start again.
            if !input.holdsBytes { read(context) }
            let bytes = body.map { Array(buffer: $0) } ?? []
            body = nil
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

    func refuse(_ kind: HTTPCondition.Kind, _ message: String, _ context: ChannelHandlerContext) {
        last(handler.answer(to: HTTPCondition(kind: kind, message: message)), context)
    }

    private func refuseBody(over limit: Int, _ context: ChannelHandlerContext) {
        refuse(.tooLarge, "The body is larger than the limit of \(limit) bytes.", context)
    }

    /// Sends the last answer on this connection, while the peer may still be sending.
    private func last(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        disarmRequestDeadline()
        queue.removeAll()
        body = nil
        framing.closes = true
        state = .lingering
        input.discard(atMost: limits.lingerBytes)
        write(answer.parts(framing, allocator: context.channel.allocator), context, promise: nil)
        context.close(mode: .output, promise: nil)
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.linger) { self.close(context) }
        if inputClosed || input.isExhausted { close(context) }
    }

    private func write(_ answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        framing.closes = framing.closes || answer.closes || isDraining || (input.isExhausted && queue.isEmpty)
        if case .stream(let body) = answer.body, !framing.omitsBody {
            return stream(body, of: answer, context)
        }
        answer.abandon()
        send(answer.parts(framing, allocator: context.channel.allocator), context)
    }

    private func stream(_ body: BodyStream, of answer: HTTPAnswer, _ context: ChannelHandlerContext) {
        let transfer = BodyTransfer(of: body, isHTTP10: framing.isHTTP10)
        if transfer == .untilClose { framing.closes = true }
        write(answer.parts(framing, allocator: context.channel.allocator), context, promise: nil)
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

    /// Writes the parts in one write to the socket.
    private func write(
        _ parts: [HTTPServerResponsePart], _ context: ChannelHandlerContext, promise: EventLoopPromise<Void>?
    ) {
        for part in parts.dropLast() { context.write(wrapOutboundOut(part), promise: nil) }
        if let last = parts.last { context.writeAndFlush(wrapOutboundOut(last), promise: promise) }
    }

    /// Writes the parts that complete an answer.
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
        turnIsOver = true
        advance(context)
    }

    private func read(_ context: ChannelHandlerContext) {
        guard !isReading else { return }
        isReading = true
        context.read()
    }

    func close(_ context: ChannelHandlerContext) {
        switch state {
        case .closed: return
        case .streaming(let stream): stream.cancel()
        default: break
        }
        state = .closed
        origin.leave()
        queue.removeAll()
        body = nil
        disarmRequestDeadline()
        idleTimer?.cancel()
        context.close(promise: nil)
    }
}
