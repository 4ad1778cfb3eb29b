import NIOCore

/// A streamed body under way on one connection. All but the producer itself runs on the channel's event loop.
final class OutgoingStream {
    private let body: BodyStream
    private var transfer: BodyTransfer
    private let channel: any Channel
    private var producer: Task<Void, Never>?
    /// Since when the peer has bytes to take; nil while the producer makes the next.
    private(set) var owedSince: NIODeadline?

    init(_ body: BodyStream, transfer: BodyTransfer, channel: any Channel) {
        self.body = body
        self.transfer = transfer
        self.channel = channel
    }

    /// - Parameter whenEnded: on the event loop, with the bytes that end the body, or nil when it is broken.
    func start(whenEnded: @escaping (ByteBuffer?) -> Void) {
        let eventLoop = channel.eventLoop
        let bound = NIOLoopBound((self, whenEnded), eventLoop: eventLoop)
        let writer = BodyWriter { piece throws(BodyWriter.Failure) in
            do {
                try await eventLoop.flatSubmit { bound.value.0.send(piece) }.get()
            } catch {
                throw error as? BodyWriter.Failure ?? .connectionEnded
            }
        }
        producer = Task { [body] in
            let isWhole = await body.run(into: writer)
            eventLoop.execute {
                let (stream, whenEnded) = bound.value
                whenEnded(isWhole ? stream.transfer.end : nil)
            }
        }
    }

    /// The daemon stops: what has no end of its own gets one.
    func drain() {
        if body.isEndless { producer?.cancel() }
    }

    /// The connection has ended.
    func cancel() {
        producer?.cancel()
    }

    private func send(_ piece: ArraySlice<UInt8>) -> EventLoopFuture<Void> {
        guard let buffer = transfer.frame(piece, allocator: channel.allocator) else {
            return channel.eventLoop.makeFailedFuture(BodyWriter.Failure.tooLong)
        }
        owedSince = .now()
        let written = channel.writeAndFlush(buffer)
        written.assumeIsolated().whenComplete { _ in self.owedSince = nil }
        return written
    }
}

/// How the peer learns where a streamed body ends.
enum BodyTransfer: Equatable {
    case chunked
    /// By its length; so many bytes are still to come.
    case counted(left: Int)
    /// HTTP/1.0: with the connection.
    case untilClose

    init(of body: BodyStream, isHTTP10: Bool) {
        self = body.length.map { .counted(left: $0) } ?? (isHTTP10 ? .untilClose : .chunked)
    }

    /// The header that says so; nil where there is none.
    var header: String? {
        switch self {
        case .chunked: "Transfer-Encoding: chunked\r\n"
        case .counted(let length): "Content-Length: \(length)\r\n"
        case .untilClose: nil
        }
    }

    /// The bytes as they go out; nil when they are more than were announced.
    mutating func frame(_ piece: ArraySlice<UInt8>, allocator: ByteBufferAllocator) -> ByteBuffer? {
        if case .counted(let left) = self {
            guard piece.count <= left else { return nil }
            self = .counted(left: left - piece.count)
        }
        var buffer = allocator.buffer(capacity: piece.count + 16)
        if self == .chunked { buffer.writeString("\(String(piece.count, radix: 16))\r\n") }
        buffer.writeBytes(piece)
        if self == .chunked { buffer.writeString("\r\n") }
        return buffer
    }

    /// What ends a whole body; nil when it is too short.
    var end: ByteBuffer? {
        switch self {
        case .chunked: ByteBuffer(string: "0\r\n\r\n")
        case .counted(let left): left == 0 ? ByteBuffer() : nil
        case .untilClose: ByteBuffer()
        }
    }
}
