import NIOCore
import NIOHTTP1

/// A body that is produced while it is sent, no faster than the peer reads it.
package struct BodyStream: Sendable {
    /// The way in which a stream ended.
    package enum End: Sendable {
        case whole
        /// The stream was never started.
        case abandoned
        case broken(any Error)
    }

    /// The number of bytes; nil if it is not known in advance, so that the body is sent in chunks (RFC 9112 §7.1).
    ///
    /// HTTP/1.0 has no chunks. Without a length the body then ends with the connection, and the peer cannot tell a truncated
    /// body from a complete one.
    package let length: Int?
    /// True for a body that ends only with the connection or the daemon. When the daemon stops, it cancels the task
    /// that runs `produce`. The bytes written until then count as the complete body.
    package let isEndless: Bool
    /// Produces the body. If it throws, or has written another number of bytes than `length`, the connection is aborted, so
    /// that the peer sees that the body is incomplete. The task is cancelled when the connection ends.
    package var produce: @Sendable (BodyWriter) async throws -> Void
    /// Called once, when no more bytes will be written.
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

    /// Runs `produce`, and reports its end with `ended`.
    ///
    /// - Returns: true if the body is complete.
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

/// Writes the pieces of a streamed body.
package struct BodyWriter: Sendable {
    package enum Failure: Error, Equatable {
        /// The peer has closed the connection, or no longer reads.
        case connectionEnded
        /// The body has more bytes than the stream's length.
        case tooLong
        /// The reader has lost the permission to read.
        case revoked
    }

    private let send: @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void

    /// The maximum size of a piece. It is small because a connection is closed if its reader does not accept a whole
    /// piece within the idle timeout.
    private static let pieceBytes = 64 * 1024

    /// - Parameter send: sends one piece, and returns when its bytes have been accepted for the peer.
    package init(send: @escaping @Sendable (ArraySlice<UInt8>) async throws(Failure) -> Void) {
        self.send = send
    }

    /// Waits until the kernel has accepted these bytes, so that the daemon never holds more than one piece.
    package func write(_ bytes: [UInt8]) async throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            try await send(rest.prefix(Self.pieceBytes))
            rest = rest.dropFirst(Self.pieceBytes)
        }
    }

    /// Returns a writer that calls `mayWrite` before each piece, and stops when it returns false.
    package func permitted(by mayWrite: @escaping @Sendable () -> Bool) -> BodyWriter {
        BodyWriter { [send] piece throws(Failure) in
            guard mayWrite() else { throw .revoked }
            try await send(piece)
        }
    }
}

/// A streamed body that is being sent on one connection. Everything except the producer runs on the channel's event loop.
final class OutgoingStream {
    private let body: BodyStream
    private var transfer: BodyTransfer
    private let channel: any Channel
    private var producer: Task<Void, Never>?
    /// The time at which the last piece was passed to the kernel, which does not accept it while the peer does not
    /// read. Nil after the piece was accepted, while the producer makes the next one.
    private(set) var owedSince: NIODeadline?

    init(_ body: BodyStream, transfer: BodyTransfer, channel: any Channel) {
        self.body = body
        self.transfer = transfer
        self.channel = channel
    }

    /// Starts the producer.
    ///
    /// - Parameter whenEnded: called on the event loop; its argument is true if the body is complete.
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

    /// Ends a body that has no end of its own, since the daemon stops.
    func drain() {
        if body.isEndless { producer?.cancel() }
    }

    /// Stops the producer, since the connection has ended.
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

/// The way in which the peer recognises the end of a streamed body.
enum BodyTransfer: Equatable {
    case chunked
    /// The length; this many bytes are still to be sent.
    case counted(left: Int)
    /// The end of the connection (HTTP/1.0).
    case untilClose

    init(of body: BodyStream, isHTTP10: Bool) {
        self = body.length.map { .counted(left: $0) } ?? (isHTTP10 ? .untilClose : .chunked)
    }

    /// The header for this transfer; nil if it needs none. NIOHTTP1's encoder frames the chunks according to it.
    var header: (name: String, value: String)? {
        switch self {
        case .chunked: ("Transfer-Encoding", "chunked")
        case .counted(let length): ("Content-Length", String(length))
        case .untilClose: nil
        }
    }

    /// Counts the bytes of a piece. Returns false if they exceed the announced length.
    mutating func takes(_ count: Int) -> Bool {
        guard case .counted(let left) = self else { return true }
        self = .counted(left: left - count)
        return count <= left
    }

    /// True if no announced byte is missing.
    var isWhole: Bool {
        if case .counted(let left) = self { left == 0 } else { true }
    }
}
