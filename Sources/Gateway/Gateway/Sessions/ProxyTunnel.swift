import NIOCore

/// Asks a proxy for a tunnel (RFC 9110 §9.3.6) and makes way for TLS when it stands.
final class ProxyTunnel: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let mostHeadBytes = 8 << 10

    private let host: String
    private let deadline: NIODeadline
    private let makeWay: (ChannelPipeline.SynchronousOperations) throws -> Void
    private let failed: (SessionFailure) -> Void
    private var head: [UInt8] = []
    private var alarm: Scheduled<Void>?
    private var isDone = false

    /// - Parameters:
    ///   - makeWay: adds TLS and what is behind it.
    ///   - failed: hears once that there is no tunnel.
    init(
        to host: String, deadline: NIODeadline,
        _ makeWay: @escaping (ChannelPipeline.SynchronousOperations) throws -> Void,
        failed: @escaping (SessionFailure) -> Void
    ) {
        self.host = host
        self.deadline = deadline
        self.makeWay = makeWay
        self.failed = failed
    }

    func channelActive(context: ChannelHandlerContext) {
        let request = "CONNECT \(host):443 HTTP/1.1\r\nHost: \(host):443\r\n\r\n"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
        let tunnel = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        alarm = context.eventLoop.scheduleTask(deadline: deadline) {
            let (tunnel, context) = tunnel.value
            tunnel.end(.deadlineExceeded(step: .connection), context)
        }
        context.fireChannelActive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        head += unwrapInboundIn(data).readableBytesView
        guard head.count <= Self.mostHeadBytes else { return end(.proxyRefused(status: nil), context) }
        guard let end = head.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let line = head.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard line.count >= 2, line[0].starts(with: Array("HTTP/1.".utf8)),
            let status = Int(String(decoding: line[1], as: UTF8.self))
        else { return self.end(.proxyRefused(status: nil), context) }
        // In TLS the client speaks first: bytes behind the head are not Apple's.
        guard (200..<300).contains(status), end.upperBound == head.count else {
            return self.end(.proxyRefused(status: status), context)
        }
        isDone = true
        alarm?.cancel()
        do {
            try makeWay(context.pipeline.syncOperations)
            context.pipeline.syncOperations.removeHandler(self, promise: nil)
        } catch {
            failed(.handshakeFailed(reason: "TLS cannot begin"))
            context.close(promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { end(.notConnected, context) }

    func channelInactive(context: ChannelHandlerContext) {
        end(.proxyRefused(status: nil), context)
        context.fireChannelInactive()
    }

    private func end(_ failure: SessionFailure, _ context: ChannelHandlerContext) {
        guard !isDone else { return }
        isDone = true
        alarm?.cancel()
        failed(failure)
        context.close(promise: nil)
    }
}
