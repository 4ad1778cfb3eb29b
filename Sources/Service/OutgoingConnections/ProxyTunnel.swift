package import NIOCore

/// An HTTP proxy, which makes a tunnel to a host (CONNECT, RFC 9110 §9.3.6).
package struct HTTPProxy: Sendable, Equatable {
    package let host: String
    package let port: Int

    package init(host: String, port: Int) { (self.host, self.port) = (host, port) }

    /// Parses `http://HOST:PORT`, with an IPv6 address in brackets and perhaps a slash at the end; nil for any other
    /// text.
    package init?(_ text: String) {
        guard text.hasPrefix("http://") else { return nil }
        var rest = text.dropFirst("http://".count)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        guard let colon = rest.lastIndex(of: ":"),
            case let digits = rest[rest.index(after: colon)...],
            digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let port = Int(digits), (1...65_535).contains(port)
        else { return nil }
        var host = rest[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        let isPlain = host.utf8.allSatisfy { byte in
            byte < 0x80
                && (Character(UnicodeScalar(byte)).isLetter || Character(UnicodeScalar(byte)).isNumber
                    || [UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: ":")].contains(byte))
        }
        guard !host.isEmpty, host.utf8.count <= 253, isPlain else { return nil }
        self.init(host: String(host), port: port)
    }
}

/// Requests a tunnel from a proxy (RFC 9110 §9.3.6), and leaves the pipeline when the tunnel is open.
package final class ProxyTunnel: ChannelInboundHandler, RemovableChannelHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    /// The reason why there is no tunnel.
    package enum Failure: Error, Sendable, Equatable {
        /// The proxy answered with this status; nil if its answer is not HTTP, or is longer than 8 KiB.
        case refused(status: Int?)
        /// The connection to the proxy broke.
        case connectionLost
    }

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
    /// - Returns: a future that succeeds when the tunnel is open, and otherwise fails with ``Failure``.
    package static func made(to host: String, on channel: any Channel) -> EventLoopFuture<Void> {
        let made = channel.eventLoop.makePromise(of: Void.self)
        do {
            try channel.pipeline.syncOperations.addHandler(ProxyTunnel(to: host, made), position: .first)
        } catch { made.fail(error) }
        return made.futureResult
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        let request = "CONNECT \(host):443 HTTP/1.1\r\nHost: \(host):443\r\n\r\n"
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    }

    package func handlerRemoved(context: ChannelHandlerContext) { made.fail(Failure.refused(status: nil)) }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        head += unwrapInboundIn(data).readableBytesView
        guard head.count <= Self.maximumHeadBytes else { return made.fail(Failure.refused(status: nil)) }
        guard let end = head.firstRange(of: Array("\r\n\r\n".utf8)) else { return }
        let line = head.prefix { $0 != UInt8(ascii: "\r") }.split(separator: UInt8(ascii: " "))
        guard line.count >= 2, line[0].starts(with: Array("HTTP/1.".utf8)),
            let status = Int(String(decoding: line[1], as: UTF8.self))
        else { return made.fail(Failure.refused(status: nil)) }
        // In TLS the client sends first, so bytes after the head do not come from the host, and the tunnel is not used.
        guard (200..<300).contains(status), end.upperBound == head.count else {
            return made.fail(Failure.refused(status: status))
        }
        made.succeed()
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) { made.fail(Failure.connectionLost) }
}
