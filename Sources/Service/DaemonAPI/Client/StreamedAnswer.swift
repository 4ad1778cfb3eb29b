import OutgoingConnections

/// An answer whose body is read while it comes, in as much memory as a few reads of the socket take.
public struct StreamedAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    /// Read it once. On a status other than 200 to 299 it is here already, whole and within
    /// ``UnixSocketClient/maximumAnswerBytes``.
    public let body: AnswerBody

    /// The refusal in the body; nil on success, or when the body is none of ours.
    public var refusal: RefusalAnswer? {
        guard !isSuccess, case .whole(let bytes) = body.body else { return nil }
        return try? JSONCoding.decode(RefusalAnswer.self, from: bytes)
    }
}

/// A body's bytes in pieces of any size, none of them empty.
///
/// The socket is read as fast as the pieces are taken. A sequence for one iteration; dropping it closes the connection.
/// It ends when the daemon has ended the body, and throws when the connection ended first.
public struct AnswerBody: AsyncSequence, Sendable {
    let body: HTTPBody
    let client: UnixSocketClient

    public func makeAsyncIterator() -> Iterator {
        switch body {
        case .whole(let bytes): Iterator(whole: bytes, pieces: nil, client: client)
        case .pieces(let pieces): Iterator(whole: [], pieces: pieces.makeAsyncIterator(), client: client)
        }
    }

    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var whole: [UInt8]
        fileprivate let pieces: HTTPBody.Pieces.AsyncIterator?
        fileprivate let client: UnixSocketClient

        public mutating func next() async throws(UnixSocketClientError) -> [UInt8]? {
            guard let pieces else {
                defer { whole = [] }
                return whole.isEmpty ? nil : whole
            }
            do {
                if let piece = try await pieces.next() { return piece }
            } catch {
                throw error is HTTPFault ? client.failure(of: error) : .cutShort(path: client.path)
            }
            // A cancelled task gets no more pieces; it must not take that for the body's end.
            if Task.isCancelled { throw .cutShort(path: client.path) }
            return nil
        }
    }
}
