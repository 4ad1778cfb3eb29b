import NIOCore

/// An answer whose body is read while it comes, in as much memory as a few reads of the socket take.
public struct StreamedAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    /// Read it once. On a status other than 200 to 299 it is here already, whole and within
    /// ``UnixSocketClient/maximumAnswerBytes``.
    public let body: AnswerBody

    /// The refusal in the body; nil on success, or when the body is none of ours.
    public var refusal: RefusalAnswer? {
        guard !isSuccess, case .whole(let bytes) = body.source else { return nil }
        return try? JSONCoding.decode(RefusalAnswer.self, from: bytes)
    }
}

/// A body's bytes in pieces of any size, none of them empty.
///
/// The socket is read as fast as the pieces are taken. A sequence for one iteration; dropping it closes the connection.
/// It ends when the daemon has ended the body, and throws when the connection ended first.
public struct AnswerBody: AsyncSequence, Sendable {
    typealias Pieces = NIOThrowingAsyncSequenceProducer<
        [UInt8], any Error, NIOAsyncSequenceProducerBackPressureStrategies.HighLowWatermark, StreamReader
    >

    enum Source: Sendable {
        case whole([UInt8])
        case pieces(Pieces)
    }

    let source: Source
    let path: String

    public func makeAsyncIterator() -> Iterator {
        switch source {
        case .whole(let bytes): Iterator(whole: bytes, path: path)
        case .pieces(let pieces): Iterator(pieces: pieces.makeAsyncIterator(), path: path)
        }
    }

    public struct Iterator: AsyncIteratorProtocol {
        private var whole: [UInt8] = []
        private var pieces: Pieces.AsyncIterator?
        private let path: String

        init(whole: [UInt8], path: String) {
            self.whole = whole
            self.path = path
        }

        init(pieces: Pieces.AsyncIterator, path: String) {
            self.pieces = pieces
            self.path = path
        }

        public mutating func next() async throws(UnixSocketClientError) -> [UInt8]? {
            guard let pieces else {
                defer { whole = [] }
                return whole.isEmpty ? nil : whole
            }
            do {
                guard let piece = try await pieces.next() else {
                    // A cancelled task gets no more pieces; it must not take that for the body's end.
                    if Task.isCancelled { throw UnixSocketClientError.cutShort(path: path) }
                    return nil
                }
                return piece
            } catch {
                throw error as? UnixSocketClientError ?? .cutShort(path: path)
            }
        }
    }
}
