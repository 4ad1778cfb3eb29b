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
