package import NIOCore

/// Counts the bytes of an HTTP answer, either before the HTTP decoder, which bounds only a head, or before TLS.
///
/// Interim answers (RFC 9110 §15.2), chunk extensions and trailers (RFC 9112 §7.1) are neither head nor body. Without this
/// count a peer could send them until the deadline and occupy a core all that time.
package final class AnswerByteCount: ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer

    /// The error that ends the answer. It is sent through the pipeline once, after the bytes that exceed the bound.
    package struct Exceeded: Error {}

    private let maximumHeadBytes: Int
    private let maximumBodyBytes: Int
    private var bytes = 0
    private var most: Int

    /// - Parameters:
    ///   - maximumHeadBytes: the bound for interim answers, status line and header fields together.
    ///   - maximumBodyBytes: the bound for the body without its framing.
    package init(maximumHeadBytes: Int = 16 << 10, maximumBodyBytes: Int) {
        self.maximumHeadBytes = maximumHeadBytes
        self.maximumBodyBytes = maximumBodyBytes
        most = maximumHeadBytes
    }

    /// Returns a handler for use before TLS. It counts all bytes that arrive while an answer is awaited, even those
    /// that belong to no answer, such as session tickets (RFC 8446 §4.6.1). 256 KiB are enough for a handshake and the
    /// largest answer, in TLS records of any usual size.
    package static func ofConnection() -> AnswerByteCount {
        AnswerByteCount(maximumHeadBytes: 256 << 10, maximumBodyBytes: 0)
    }

    /// Sets the count to zero for the next answer, and restores the bound for a head.
    package func begin() {
        bytes = 0
        most = maximumHeadBytes
    }

    /// Raises the bound, so that it includes the body. The caller calls it when the final head, after any interim
    /// answers, has arrived.
    package func headHasEnded() {
        // Twice the body's bound leaves room for trailers and for the chunk sizes of the smallest sensible chunks.
        most = maximumHeadBytes + 2 * maximumBodyBytes
    }

    /// Removes the bound for the rest of this answer.
    package func stop() { most = .max }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let wasWithin = bytes <= most
        bytes += unwrapInboundIn(data).readableBytes
        // The bytes are passed on before the error, because they may complete the answer.
        context.fireChannelRead(data)
        guard wasWithin, bytes > most else { return }
        // Later bytes are not read, so that they cost nothing while TLS is being closed.
        _ = try? context.channel.syncOptions?.setOption(.autoRead, value: false)
        context.fireErrorCaught(Exceeded())
    }
}
