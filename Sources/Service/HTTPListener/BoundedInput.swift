import Encodings
import NIOCore

/// Keeps received bytes until the connection asks for them, and counts those that it passes on to the HTTP decoder. A
/// request's size and time are therefore bounded before the decoder has parsed it. After the last answer it discards
/// all further bytes.
///
/// One read can return hundreds of requests. A decoded request takes many times its size in memory, so the requests
/// stay bytes until their turn. The decoder never receives more bytes at a time than up to the next end of a head or a
/// message. Bytes counted after such an end therefore belong to the next request, whose time limit can then begin.
final class BoundedInput: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// The maximum number of chunks of one body. Each chunk takes the decoder as long as a kilobyte of data. A peer
    /// that writes its JSON piece by piece needs a few hundred chunks.
    static let maximumChunks = 1024
    /// The maximum number of chunks passed on in one turn. Decoding this many takes about as long as one signature.
    static let chunksAtOnce = 32

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    /// The number of bytes given to the decoder since it last completed a head or a message.
    private(set) var bytesSinceBoundary = 0
    /// The bytes of the last read that were not passed on yet.
    private var kept = CircularBuffer<ByteBuffer>(initialCapacity: 1)
    /// True once the peer has sent its last byte.
    private var hasSeenEnd = false
    /// True while the decoder must still learn that the input has ended. It learns this after the kept bytes.
    private var owesEnd = false
    private var context: ChannelHandlerContext?
    /// The number of chunks of the current body so far.
    private(set) var chunkCount = 0
    /// The sum of the sizes of the current body's chunks so far. Only the last chunk can be incomplete.
    private(set) var announcedBytes = 0
    /// True if this turn has passed on as many chunks as a turn may; the bytes after them wait for another turn.
    private(set) var endsTurn = false
    /// The number of further bytes to read and discard after the last answer; nil until that answer.
    private(set) var discardAllowance: Int?

    /// The position of the next byte in a chunked body (RFC 9112 §7.1). A chunk's data must be passed on whole. If it were
    /// cut at each line feed, a body of line feeds would cost the event loop one decoder call per byte.
    private enum Chunk {
        /// The line with the size; the text after the digits is the extension.
        case size(Int, digits: Int, isExtended: Bool)
        case data(left: Int)

        static let begin = Chunk.size(0, digits: 0, isExtended: false)

        /// Returns the position after one more byte.
        ///
        /// - Returns: nil after the line of the last chunk, which has the size 0. Trailers or the empty line follow.
        func after(_ byte: UInt8) -> Chunk? {
            switch self {
            case .data(let left): return left > 1 ? .data(left: left - 1) : .begin
            case .size(let size, let digits, let isExtended):
                if byte == BoundedInput.lineFeed {
                    // Without digits, this is the line end that follows a chunk's data. The next chunk's size follows.
                    guard digits > 0 else { return .begin }
                    return size > 0 ? .data(left: size) : nil
                }
                guard !isExtended, let digit = Hexadecimal.value(of: byte) else {
                    return .size(size, digits: digits, isExtended: isExtended || byte != BoundedInput.carriageReturn)
                }
                // The size is capped to avoid an overflow. A capped size exceeds every body limit, so the request is
                // refused before its data are counted.
                return .size(min(size, Int.max >> 8) << 4 | Int(digit), digits: digits + 1, isExtended: false)
            }
        }
    }

    /// The position in a chunked body; nil outside such a body, and in its trailers.
    private var chunk: Chunk?
    /// The number of bytes that are still to come of a body whose length the head declared.
    private var bodyLeft = 0
    private var isBetweenMessages = true
    /// True if the bytes since the last line feed are only carriage returns, or none.
    private var lineIsEmpty = false

    /// Called when the decoder has completed a head.
    ///
    /// - Parameter bodyLength: the length that the head declares; 0 if the body is chunked.
    func headEnded(bodyLength: Int, isChunked: Bool) {
        bytesSinceBoundary = 0
        bodyLeft = max(bodyLength, 0)
        (chunkCount, announcedBytes) = (0, 0)
        chunk = isChunked ? .begin : nil
        isBetweenMessages = false
        lineIsEmpty = false
    }

    /// Called when the decoder has completed a message.
    func messageEnded() {
        bytesSinceBoundary = 0
        bodyLeft = 0
        chunk = nil
        isBetweenMessages = true
        lineIsEmpty = false
    }

    /// Discards the kept bytes and all later ones.
    func discard(atMost allowance: Int) {
        discardAllowance = kept.reduce(allowance) { $0 - $1.readableBytes }
        kept.removeAll()
    }

    /// True while there are bytes to pass on.
    var holdsBytes: Bool { !kept.isEmpty }

    /// True once the peer has sent its last byte and it has been passed on.
    var isExhausted: Bool { hasSeenEnd && kept.isEmpty }

    /// Passes the next bytes to the decoder, at most up to the next possible end of a head or a message; or, after all
    /// bytes, the end of the input.
    ///
    /// - Returns: false if nothing was left to pass on.
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

    /// Returns the next bytes for the decoder, at most up to the next possible end of a head or a message; nil if there are
    /// none.
    private func nextPiece(of bytes: inout ByteBuffer) -> ByteBuffer? {
        if isBetweenMessages, bytesSinceBoundary == 0 {
            // RFC 9112 §2.2: empty lines before a request line are ignored, so they do not begin a request either.
            let empty = bytes.readableBytesView.prefix { $0 == Self.lineFeed || $0 == Self.carriageReturn }
            bytes.moveReaderIndex(forwardBy: empty.count)
        }
        guard bytes.readableBytes > 0 else { return nil }
        if bodyLeft > 0 {
            let length = min(bodyLeft, bytes.readableBytes)
            bodyLeft -= length
            return bytes.readSlice(length: length)
        }
        // An empty line ends a head, and a chunked body with its trailers (RFC 9112 §2.1, §7.1).
        var length = 0
        for byte in bytes.readableBytesView {
            length += 1
            if let inside = chunk {
                chunk = inside.after(byte)
                lineIsEmpty = true
                guard case .size = inside, case .data(let size)? = chunk else { continue }
                chunkCount += 1
                announcedBytes += size
                if chunkCount % Self.chunksAtOnce == 0 || chunkCount > Self.maximumChunks {
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

/// The time limits of a connection, for a request and between requests.
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

    /// Starts the one timer of the connection. It checks the clock when it fires; one more timer per request would cost more.
    func armIdleTimer(_ context: ChannelHandlerContext, in delay: TimeAmount) {
        idleTimer = context.eventLoop.assumeIsolated().scheduleTask(in: delay) { self.idleTimerFired(context) }
    }

    func idleTimerFired(_ context: ChannelHandlerContext) {
        let since: NIODeadline?
        switch state {
        case .closed: return
        // A peer that does not read its answer is idle, too.
        case .idle where requestDeadline == nil, .writing: since = idleSince
        case .streaming(let stream): since = stream.owedSince
        default: since = nil
        }
        let now = NIODeadline.now()
        guard let since else { return armIdleTimer(context, in: limits.idle) }
        let end = since + limits.idle
        if end <= now { close(context) } else { armIdleTimer(context, in: end - now) }
    }

    /// Keeps the connection open for a short time while the program stops. A peer that connected just before does not
    /// know of the stop, and may already have sent its request. A request that arrives soon is answered. Otherwise it
    /// would find the connection closed.
    func awaitFirstRequest(_ context: ChannelHandlerContext) {
        context.eventLoop.assumeIsolated().scheduleTask(in: limits.firstRequestWhileDraining) {
            if self.isBetweenRequests { self.close(context) }
        }
    }
}
