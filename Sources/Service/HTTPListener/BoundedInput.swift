import Encodings
import NIOCore

/// Keeps the bytes that come in until the connection asks for them, and counts those that it passes on to the HTTP decoder,
/// so that a request's size and time are bounded before the decoder has made a request of them. Once the last answer is
/// written it throws the rest away.
///
/// One read can bring hundreds of requests. Decoded, each takes many times its bytes, so they stay bytes until their
/// turn: the decoder gets at most one end of a head or a message at a time. What is counted after an end then belongs to
/// the next request, and the time limit of that request can begin.
final class BoundedInput: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// Chunks of one body. Each costs the decoder as much as a kilobyte, and a peer that writes its JSON piece by piece needs a
    /// few hundred.
    static let mostChunks = 1024
    /// Chunks that are passed on at once. The decoder makes a part of each: so many take it about as long as one signature takes.
    static let chunksAtOnce = 32

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    /// Bytes given to the decoder since it last completed a head or a message.
    private(set) var bytesSinceBoundary = 0
    /// Bytes that were read and not yet passed on: what one read brought.
    private var kept = CircularBuffer<ByteBuffer>(initialCapacity: 1)
    /// The peer has sent its last byte.
    private var hasSeenEnd = false
    /// The decoder does not know that yet: it learns it after the bytes that are kept.
    private var owesEnd = false
    private var context: ChannelHandlerContext?
    /// Chunks that the present body has had so far.
    private(set) var chunkCount = 0
    /// Sum of the sizes of these chunks. Only the last one's bytes can be still to come.
    private(set) var announcedBytes = 0
    /// The bytes that were passed on last were cut for the work that they make: those after them are for another turn.
    private(set) var endsTurn = false
    /// While lingering: how many more bytes are read and thrown away; nil before.
    private(set) var discardAllowance: Int?

    /// The place in a chunked body of the next byte (RFC 9112 §7.1). Its data must be passed on whole: cut at each line feed
    /// in it, a body of line feeds would cost the event loop one call of the decoder for each byte.
    private enum Chunk {
        /// In the line with the size; what follows the digits is the extension.
        case size(Int, digits: Int, isExtended: Bool)
        case data(left: Int)

        static let begin = Chunk.size(0, digits: 0, isExtended: false)

        /// - Returns: nil after the last chunk's line: trailers follow, or the empty line.
        func after(_ byte: UInt8) -> Chunk? {
            switch self {
            case .data(let left): return left > 1 ? .data(left: left - 1) : .begin
            case .size(let size, let digits, let isExtended):
                if byte == BoundedInput.lineFeed {
                    // A line without digits ends the data before it.
                    guard digits > 0 else { return .begin }
                    return size > 0 ? .data(left: size) : nil
                }
                guard !isExtended, let digit = Hexadecimal.value(of: byte) else {
                    return .size(size, digits: digits, isExtended: isExtended || byte != BoundedInput.carriageReturn)
                }
                // A size that this cuts exceeds every body limit, so the request is refused by then.
                return .size(min(size, Int.max >> 8) << 4 | Int(digit), digits: digits + 1, isExtended: false)
            }
        }
    }

    /// nil outside a chunked body, and in its trailers.
    private var chunk: Chunk?
    /// How many bytes are still to come of a body whose length the head declared.
    private var bodyLeft = 0
    private var isBetweenMessages = true
    /// Whether the bytes since the last line feed are none or carriage returns.
    private var lineIsEmpty = false

    /// The decoder has completed a head. - Parameter bodyLength: as the head declares it; 0 when it is chunked.
    func headEnded(bodyLength: Int, isChunked: Bool) {
        bytesSinceBoundary = 0
        bodyLeft = max(bodyLength, 0)
        (chunkCount, announcedBytes) = (0, 0)
        chunk = isChunked ? .begin : nil
        isBetweenMessages = false
        lineIsEmpty = false
    }

    /// The decoder has completed a message.
    func messageEnded() {
        bytesSinceBoundary = 0
        bodyLeft = 0
        chunk = nil
        isBetweenMessages = true
        lineIsEmpty = false
    }

    /// From now on nothing passes.
    func discard(atMost allowance: Int) {
        discardAllowance = kept.reduce(allowance) { $0 - $1.readableBytes }
        kept.removeAll()
    }

    /// Returns true while bytes wait to be passed on.
    var holdsBytes: Bool { !kept.isEmpty }

    /// Returns true once the peer has sent its last byte and it was passed on.
    var isExhausted: Bool { hasSeenEnd && kept.isEmpty }

    /// Passes the next bytes to the decoder: up to where a head or a message can end.
    ///
    /// - Returns: false when there are none.
    func passOn() -> Bool {
        guard let context else { return false }
        endsTurn = false
        while !kept.isEmpty {
            let piece = nextPiece(of: &kept[kept.startIndex])
            if kept[kept.startIndex].readableBytes == 0 { kept.removeFirst() }
            guard let piece else { continue }
            bytesSinceBoundary += piece.readableBytes
            context.fireChannelRead(wrapInboundOut(piece))
            return true
        }
        guard owesEnd else { return false }
        owesEnd = false
        context.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
        return true
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        kept.removeAll()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        if let allowance = discardAllowance {
            discardAllowance = allowance - bytes.readableBytes
        } else {
            kept.append(bytes)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event {
            hasSeenEnd = true
            owesEnd = !kept.isEmpty
            if owesEnd { return }
        }
        context.fireUserInboundEventTriggered(event)
    }

    /// The next bytes for the decoder: up to where a head or a message can end, or all; nil when nothing is left.
    private func nextPiece(of bytes: inout ByteBuffer) -> ByteBuffer? {
        if isBetweenMessages, bytesSinceBoundary == 0 {
            // RFC 9112 §2.2: empty lines before a request line are ignored, so they begin no request either.
            let empty = bytes.readableBytesView.prefix { $0 == Self.lineFeed || $0 == Self.carriageReturn }
            bytes.moveReaderIndex(forwardBy: empty.count)
        }
        guard bytes.readableBytes > 0 else { return nil }
        if bodyLeft > 0 {
            let length = min(bodyLeft, bytes.readableBytes)
            bodyLeft -= length
            return bytes.readSlice(length: length)
        }
        // A head ends with an empty line, and so does a chunked body with its trailers (RFC 9112 §2.1, §7.1).
        var length = 0
        for byte in bytes.readableBytesView {
            length += 1
            if let inside = chunk {
                chunk = inside.after(byte)
                lineIsEmpty = true
                guard case .size = inside, case .data(let size)? = chunk else { continue }
                chunkCount += 1
                announcedBytes += size
                if chunkCount % Self.chunksAtOnce == 0 || chunkCount > Self.mostChunks {
                    endsTurn = true
                    return bytes.readSlice(length: length)
                }
                continue
            }
            switch byte {
            case Self.lineFeed:
                if lineIsEmpty { return bytes.readSlice(length: length) }
                lineIsEmpty = true
            case Self.carriageReturn: break
            default: lineIsEmpty = false
            }
        }
        return bytes.readSlice(length: length)
    }
}

/// The time that a connection has: for a request, and without one.
extension ConnectionHandler {
    func armRequestDeadline(_ context: ChannelHandlerContext) {
        guard requestDeadline == nil else { return }
        requestDeadline = context.eventLoop.assumeIsolated().scheduleTask(in: limits.request) { [self] in
            requestDeadline = nil
            switch state {
            case .idle, .receiving:
                refuse(
                    .timeout,
                    "The request was not complete in time; send head and body within \(limits.request.description).",
                    context)
            case .discarding: close(context)
            case .responding, .streaming, .writing, .lingering, .closed: break
            }
        }
    }

    func disarmRequestDeadline() {
        requestDeadline?.cancel()
        requestDeadline = nil
    }

    /// One timer that looks at the clock when it fires, rather than one more for each request.
    func armIdleTimer(_ context: ChannelHandlerContext, in delay: TimeAmount) {
        idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.idleTimerFired(context) }
    }

    func idleTimerFired(_ context: ChannelHandlerContext) {
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

    /// A peer that connected just before the end does not know of it, and its request is on its way: it is answered if it comes
    /// soon, instead of finding the connection closed.
    func awaitFirstRequest(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.firstRequestWhileDraining) {
            if self.isBetweenRequests { self.close(context) }
        }
    }
}
