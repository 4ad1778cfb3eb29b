import NIOCore

/// A connection beyond the limits: it is told so before it asks, and closed as soon as the peer has read that, or
/// after a second.
final class OverloadedConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let answer: HTTPAnswer
    private var allowance = 256 * 1024

    init(answer: HTTPAnswer) {
        self.answer = answer
    }

    func channelActive(context: ChannelHandlerContext) {
        let buffer = AnswerEncoder.encode(answer, framing: .init(closes: true), allocator: context.channel.allocator)
        // Closing with the request still unread would cost the peer the answer: so it is read, within bounds.
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        context.close(mode: .output, promise: nil)
        let channel = context.channel
        context.eventLoop.scheduleTask(in: .seconds(1)) { channel.close(promise: nil) }
        context.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        allowance -= unwrapInboundIn(data).readableBytes
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if allowance > 0 { context.read() } else { context.close(promise: nil) }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { context.close(promise: nil) }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}
