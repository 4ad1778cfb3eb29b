package import NIOCore

/// Counts the bytes of an HTTP answer in front of the HTTP decoder, which bounds a head alone; or in front of TLS.
///
/// Interim answers (RFC 9110 §15.2), chunk extensions and trailers (RFC 9112 §7.1) are neither head nor body. Without this count
/// a peer can send them until the deadline and take a core all that time.
package final class AnswerByteCount: ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer

    /// Ends the answer: goes through the pipeline once, behind the bytes that exceed the bound.
    package struct Exceeded: Error {}

    private let mostHeadBytes: Int
    private let mostBodyBytes: Int
    private var bytes = 0
    private var most: Int

    /// - Parameters:
    ///   - mostHeadBytes: for interim answers, status line and header fields together.
    ///   - mostBodyBytes: for the body without what frames it.
    package init(mostHeadBytes: Int = 16 << 10, mostBodyBytes: Int) {
        self.mostHeadBytes = mostHeadBytes
        self.mostBodyBytes = mostBodyBytes
        most = mostHeadBytes
    }

    /// A count of all bytes that come while one answer is awaited, for the place in front of TLS: session tickets (RFC 8446
    /// §4.6.1), for one, are in no answer. 256 KiB are enough for a handshake and the largest answer in records of any usual size.
    package static func ofConnection() -> AnswerByteCount {
        AnswerByteCount(mostHeadBytes: 256 << 10, mostBodyBytes: 0)
    }

    /// Another answer begins.
    package func begin() {
        bytes = 0
        most = mostHeadBytes
    }

    /// The last head has come.
    package func headHasEnded() {
        // Twice the body leaves room for the lengths of the smallest chunks that make sense, and for trailers.
        most = mostHeadBytes + 2 * mostBodyBytes
    }

    /// The rest of this answer has no bound.
    package func stop() { most = .max }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let wasWithin = bytes <= most
        bytes += unwrapInboundIn(data).readableBytes
        // First the bytes: the answer may be whole with them.
        context.fireChannelRead(data)
        guard wasWithin, bytes > most else { return }
        // What still comes is not read, so that it costs nothing while TLS is being closed.
        _ = try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.fireErrorCaught(Exceeded())
    }
}
