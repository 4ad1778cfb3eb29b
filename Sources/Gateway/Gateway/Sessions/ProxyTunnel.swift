import NIOCore

/// Requests a tunnel from a proxy (RFC 9110 §9.3.6), and leaves the pipeline when the tunnel is open.
final class ProxyTunnel: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let maximumHeadBytes = 8 << 10

    private let host: String
    private let made: EventLoopPromise<Void>
    private var head: [UInt8] = []

    private init(to host: String, _ made: EventLoopPromise<Void>) {
        self.host = host
        self.made = made
    }

    /// Requests a tunnel to the host from the proxy at the other end of the connection. Must be called on the
    /// connection's event loop.
    ///
    /// - Returns: a future that succeeds when the tunnel is open, and otherwise fails with ``SessionFailure``.
    static func made(to host: String, on channel: any Channel) -> EventLoopFuture<Void> {
        let made = channel.eventLoop.makePromise(of: Void.self)
        do {
            try channel.pipeline.syncOperations.addHandler(ProxyTunnel(to: host, made), position: .first)
        } catch { made.fail(error) }
        return made.futureResult
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let request = "CONNECT \(host):443 HTTP/1.1\r\nHost: \(host):443\r\n\r\n"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    }

    func handlerRemoved(context: ChannelHandlerContext) { made.fail(SessionFailure.proxyRefused(status: nil)) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        head += unwrapInboundIn(data).readableBytesView
        guard head.count <= Self.maximumHeadBytes else { return made.fail(SessionFailure.proxyRefused(status: nil)) }
        guard let end = head.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let line = head.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard line.count >= 2, line[0].starts(with: Array("HTTP/1.".utf8)),
            let status = Int(String(decoding: line[1], as: UTF8.self))
        else { return made.fail(SessionFailure.proxyRefused(status: nil)) }
        // In TLS the client sends first, so bytes after the head do not come from Apple, and the tunnel is not used.
        guard (200..<300).contains(status), end.upperBound == head.count else {
            return made.fail(SessionFailure.proxyRefused(status: status))
        }
        made.succeed()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { made.fail(SessionFailure.notConnected) }
}
