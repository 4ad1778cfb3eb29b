import NIOCore
import NIOHTTP1

/// A body that is made while it is sent, no faster than the peer takes it.
package struct BodyStream: Sendable {
    /// How a stream ended.
    package enum End: Sendable {
        case whole
        /// Never begun.
        case abandoned
        case broken(any Error)
    }

    /// How many bytes there are; nil when that is not known before, so that the body is sent in chunks (RFC 9112 §7.1).
    ///
    /// HTTP/1.0 has no chunks: without a length the body ends where the connection does, and the peer cannot tell one that
    /// was broken off from a whole one.
    package let length: Int?
    /// The body has no end of its own. A stopping daemon cancels the task that runs `produce`, and what was written by
    /// then counts as the whole.
    package let isEndless: Bool
    /// Makes the body. When it throws, or has written another number of bytes than `length`, the connection is broken
    /// off, so that the peer sees that something is missing. Its task is cancelled when the connection ends.
    package var produce: @Sendable (BodyWriter) async throws -> Void
    /// Called once, when nothing more will be written.
    package var ended: @Sendable (End) -> Void

    package init(
        length: Int? = nil, isEndless: Bool = false, ended: @escaping @Sendable (End) -> Void = { _ in },
        produce: @escaping @Sendable (BodyWriter) async throws -> Void
    ) {
        self.length = length
        self.isEndless = isEndless
        self.produce = produce
        self.ended = ended
    }

    /// - Returns: whether it is whole.
    package func run(into writer: BodyWriter) async -> Bool {
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
package struct BodyWriter: Sendable {
    package enum Failure: Error, Equatable {
        /// The peer has left, or takes nothing any more.
        case connectionEnded
        /// More bytes than the stream's length.
        case tooLong
        /// The reader has lost the right to read.
        case revoked
    }

    private let send: @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void

    /// A reader is closed as idle when it takes none for the idle time-out: so a piece is small enough for a slow one.
    private static let pieceBytes = 64 * 1024

    /// - Parameter send: returns when the peer's side has taken the bytes.
    package init(send: @escaping @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void) {
        self.send = send
    }

    /// Waits until the kernel has taken these bytes, so that the daemon never holds more than one piece.
    package func write(_ bytes: [UInt8]) async throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            try await send(rest.prefix(Self.pieceBytes))
            rest = rest.dropFirst(Self.pieceBytes)
        }
    }

    /// Asks before each piece whether it may still be written.
    package func permitted(by mayWrite: @escaping @Sendable () -> Bool) -> BodyWriter {
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
    /// Since when the kernel has not taken the last piece, because the peer does not read; nil while the producer makes the
    /// next one.
    private(set) var owedSince: NIODeadline?

    init(_ body: BodyStream, transfer: BodyTransfer, channel: any Channel) {
        self.body = body
        self.transfer = transfer
        self.channel = channel
    }

    /// - Parameter whenEnded: on the event loop, with whether the body is whole.
    func start(whenEnded: @escaping (_ isWhole: Bool) -> Void) {
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
            let isProduced = await body.run(into: writer)
            eventLoop.execute {
                let (stream, whenEnded) = bound.value
                whenEnded(isProduced && stream.transfer.isWhole)
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
        guard transfer.takes(piece.count) else {
            return channel.eventLoop.makeFailedFuture(BodyWriter.Failure.tooLong)
        }
        owedSince = .now()
        let written = channel.eventLoop.makePromise(of: Void.self)
        let part = HTTPServerResponsePart.body(.byteBuffer(channel.allocator.buffer(bytes: piece)))
        channel.pipeline.syncOperations.writeAndFlush(NIOAny(part), promise: written)
        written.futureResult.assumeIsolated().whenComplete { _ in self.owedSince = nil }
        return written.futureResult
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

    /// The header that says so; nil where there is none. NIOHTTP1's encoder frames the chunks by it.
    var header: (name: String, value: String)? {
        switch self {
        case .chunked: ("Transfer-Encoding", "chunked")
        case .counted(let length): ("Content-Length", String(length))
        case .untilClose: nil
        }
    }

    /// Counts the bytes of a piece; false when they are more than were announced.
    mutating func takes(_ count: Int) -> Bool {
        guard case .counted(let left) = self else { return true }
        self = .counted(left: left - count)
        return count <= left
    }

    /// Whether no announced byte is missing.
    var isWhole: Bool {
        if case .counted(let left) = self { left == 0 } else { true }
    }
}
