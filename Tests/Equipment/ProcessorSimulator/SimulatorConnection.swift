import NIOCore
import NIOHTTP1

/// Handles one connection: reads complete requests in order, and sends each answer as its scenario requires.
final class SimulatorConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// The event that the simulator is stopping. The connection then finishes its current requests and accepts no more.
    struct Drain: Sendable {}

    private enum State {
        /// Waits for a request or for the rest of one.
        case reading
        case answering
        /// Sends no answer, and waits until the peer closes.
        case silent
        /// Sends nothing more, and discards later input.
        case ended
    }

    private let routes: RequestRoutes
    private let late: TimeAmount
    private var state = State.reading
    /// The part of the current request that has arrived.
    private var incoming: SimulatorRequest?
    /// Requests that arrived before the previous request was answered.
    private var waiting: [SimulatorRequest] = []
    private var isLast = false
    private var deadline: Scheduled<Void>?

    /// The time within which a complete request must arrive, from the connection's start or the previous answer.
    private static let requestTime = TimeAmount.seconds(60)
    /// The time between the last answer and the closing of the connection. If input arrived after an immediate close,
    /// the kernel could discard the answer.
    private static let lingerTime = TimeAmount.seconds(1)
    private static let maximumWaiting = 8

    init(routes: RequestRoutes, late: TimeAmount) {
        (self.routes, self.late) = (routes, late)
    }

    // MARK: Input

    func channelActive(context: ChannelHandlerContext) { startDeadline(context) }

    func channelInactive(context: ChannelHandlerContext) {
        deadline?.cancel()
        state = .ended
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .ended = state { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            incoming = SimulatorRequest(head: head)
            let length = head.headers.first(name: "content-length").map { Int($0) ?? Int.max } ?? 0
            if length > SimulatorRequest.maximumBodyBytes {
                refuse(.tooLarge, context)
            } else if head.headers["expect"].contains(where: { $0.lowercased() == "100-continue" }) {
                send(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8), context)
            }
        case .body(let bytes):
            incoming?.body += bytes.readableBytesView
            if let incoming, incoming.body.count > SimulatorRequest.maximumBodyBytes { refuse(.tooLarge, context) }
        case .end:
            guard let request = incoming else { return }
            incoming = nil
            waiting.append(request)
            guard waiting.count <= Self.maximumWaiting else { return refuse(.notHTTP, context) }
            answerNext(context)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            isLast = true
            // A peer that has finished sending may still wait for an answer.
            if case .answering = state {} else { context.close(promise: nil) }
        case is Drain:
            isLast = true
            switch state {
            case .answering: break
            case .reading where incoming != nil: break
            case .reading, .silent, .ended: context.close(promise: nil)
            }
        default: context.fireUserInboundEventTriggered(event)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard error is HTTPParserError, case .reading = state else { return context.close(promise: nil) }
        refuse(.notHTTP, context)
    }

    // MARK: Output

    private func answerNext(_ context: ChannelHandlerContext) {
        guard case .reading = state, !waiting.isEmpty else { return }
        let request = waiting.removeFirst()
        state = .answering
        deadline?.cancel()
        let closes = !request.head.isKeepAlive
        let eventLoop = context.eventLoop
        let bound = NIOLoopBound((self, context), eventLoop: eventLoop)
        routes.react(to: request) { reaction in
            eventLoop.execute { bound.value.0.perform(reaction, closes: closes, bound.value.1) }
        }
    }

    private func perform(_ reaction: Reaction, closes: Bool, _ context: ChannelHandlerContext) {
        guard case .answering = state else { return }
        switch reaction {
        case .answer(let answers):
            let isLast = closes || self.isLast || answers.contains(where: \.closes)
            var bytes: [UInt8] = []
            for (position, answer) in answers.enumerated() {
                var answer = answer
                answer.closes = isLast && position == answers.count - 1
                bytes += answer.bytes
            }
            send(bytes, context)
            guard !isLast else { return finish(context) }
            state = .reading
            startDeadline(context)
            answerNext(context)
        case .cut(let bytes):
            state = .ended
            let channel = context.channel
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)))
                .whenComplete { _ in channel.close(promise: nil) }
        case .silence:
            if isLast { context.close(promise: nil) } else { state = .silent }
        case .late(let record):
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            context.eventLoop.scheduleTask(in: late) { bound.value.0.answerLate(record, closes: closes, bound.value.1) }
        }
    }

    private func answerLate(_ record: PaymentRecords.Record, closes: Bool, _ context: ChannelHandlerContext) {
        // If the peer has closed the connection, no answer is sent or recorded.
        guard case .answering = state else { return }
        let eventLoop = context.eventLoop
        let bound = NIOLoopBound((self, context), eventLoop: eventLoop)
        routes.log.recordAnswer(to: record) { result in
            // The submission is in the log already, so an answer such as 503, which means that nothing was done, would
            // be wrong.
            let reaction: Reaction =
                if case .success = result { .answer([.status(of: record)]) } else { .cut(after: []) }
            eventLoop.execute { bound.value.0.perform(reaction, closes: closes, bound.value.1) }
        }
    }

    private func refuse(_ answer: SimulatorAnswer, _ context: ChannelHandlerContext) {
        // A pending answer would have to precede this one, so the connection closes without either.
        guard case .reading = state else {
            state = .ended
            return context.close(promise: nil)
        }
        send(answer.bytes, context)
        finish(context)
    }

    private func send(_ bytes: [UInt8], _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
    }

    private func finish(_ context: ChannelHandlerContext) {
        state = .ended
        (incoming, waiting) = (nil, [])
        context.close(mode: .output, promise: nil)
        closeLater(after: Self.lingerTime, context)
    }

    private func startDeadline(_ context: ChannelHandlerContext) { closeLater(after: Self.requestTime, context) }

    private func closeLater(after time: TimeAmount, _ context: ChannelHandlerContext) {
        deadline?.cancel()
        let channel = context.channel
        deadline = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
    }
}
