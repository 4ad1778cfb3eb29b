import NIOCore

/// Stands before the HTTP decoder: counts what comes in, and swallows it once nothing more is read from this peer.
final class InputGate: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// Bytes received since the decoder last completed a head or a message.
    private(set) var bytesSinceBoundary = 0
    /// While lingering: how many more bytes are read and thrown away; nil before.
    private(set) var discardAllowance: Int?

    func boundaryReached() {
        bytesSinceBoundary = 0
    }

    /// From now on nothing passes.
    func discard(atMost allowance: Int) {
        discardAllowance = allowance
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let count = unwrapInboundIn(data).readableBytes
        if let allowance = discardAllowance {
            discardAllowance = allowance - count
        } else {
            bytesSinceBoundary += count
            context.fireChannelRead(data)
        }
    }
}
