import OutgoingConnections

/// An answer whose body is read as it arrives, with a few socket reads in memory.
public struct StreamedAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    /// The body, which can be read once. With a status other than 200 to 299 it has already been read in full, within
    /// ``UnixSocketClient/maximumAnswerBytes``.
    public let body: AnswerBody

    /// The refusal in the body; nil on success, or if the body is not a refusal of this API.
    public var refusal: RefusalAnswer? {
        guard !isSuccess, case .whole(let bytes) = body.body else { return nil }
        return try? JSONCoding.decode(RefusalAnswer.self, from: bytes)
    }
}

/// A body's bytes in pieces of any size, none of them empty.
///
/// The socket is read as fast as the pieces are consumed. The sequence allows one iteration; dropping it closes the
/// connection. It ends when the daemon has ended the body, and throws if the connection ends before.
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
            // A cancelled task receives no more pieces, which must not be taken for the end of the body.
            if Task.isCancelled { throw .cutShort(path: client.path) }
            return nil
        }
    }
}
