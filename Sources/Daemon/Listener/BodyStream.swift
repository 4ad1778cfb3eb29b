import NIOCore

/// A body that is made while it is sent, no faster than the peer takes it.
struct BodyStream: Sendable {
    /// How a stream ended.
    enum End: Sendable {
        case whole
        /// Never begun.
        case abandoned
        case broken(any Error)
    }

    /// How many bytes there are; nil when that is not known before, and then it is chunked (RFC 9112 §7.1).
    ///
    /// HTTP/1.0 has no chunks: without a length its body ends where the connection does, and a broken one looks the
    /// same as a whole one.
    let length: Int?
    /// It goes on until somebody ends it. A stopping daemon cancels the task that runs `produce`, and what was written
    /// by then counts as the whole.
    let isEndless: Bool
    /// Makes the body. When it throws, or has written another number of bytes than `length`, the connection is broken
    /// off, so that the peer sees that something is missing. Its task is cancelled when the connection ends.
    var produce: @Sendable (BodyWriter) async throws -> Void
    /// Called once, when nothing more will be written.
    var ended: @Sendable (End) -> Void

    init(
        length: Int? = nil, isEndless: Bool = false, ended: @escaping @Sendable (End) -> Void = { _ in },
        produce: @escaping @Sendable (BodyWriter) async throws -> Void
    ) {
        self.length = length
        self.isEndless = isEndless
        self.produce = produce
        self.ended = ended
    }

    /// - Returns: whether it is whole.
    func run(into writer: BodyWriter) async -> Bool {
        do {
            try await produce(writer)
            ended(.whole)
            return true
        } catch is CancellationError where isEndless {
            ended(.whole)
            return true
        } catch {
            ended(.broken(error))
            return false
        }
    }
}

/// Takes the pieces of a streamed body.
struct BodyWriter: Sendable {
    enum Failure: Error, Equatable {
        /// The peer has left, or takes nothing any more.
        case connectionEnded
        /// More bytes than the stream's length.
        case tooLong
        /// Who reads is not permitted to any more.
        case revoked
    }

    private let send: @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void

    /// A slow reader shows that it is alive each time it has taken so much.
    private static let pieceBytes = 64 * 1024

    /// - Parameter send: returns when the peer's side has taken the bytes.
    init(send: @escaping @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void) {
        self.send = send
    }

    /// Waits until the kernel has taken these bytes, so that never more than one piece is on its way.
    func write(_ bytes: [UInt8]) async throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            try await send(rest.prefix(Self.pieceBytes))
            rest = rest.dropFirst(Self.pieceBytes)
        }
    }

    /// Asks before each piece whether it may still be written.
    func permitted(by mayWrite: @escaping @Sendable () -> Bool) -> BodyWriter {
        BodyWriter { [send] piece throws(Failure) in
            guard mayWrite() else { throw .revoked }
            try await send(piece)
        }
    }
}

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
