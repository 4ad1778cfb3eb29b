import OutgoingConnections

/// An answer whose body is read as it arrives. At most a few socket reads are in memory at a time.
public struct StreamedAnswer: AnswerHead {
    public let status: Int
    public let headers: [(name: String, value: String)]
    /// The body, which can be read only once. For a status outside 200 to 299 the client has already read all of it, up to
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
/// The client reads the socket no faster than the caller consumes the pieces. The sequence allows one iteration, and the
/// connection closes when the sequence is released. Iteration ends at the end of the body, and throws if the connection
/// ends earlier.
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
            // A cancelled task gets nil from `pieces` too. The caller must not take that for the end of the body.
            if Task.isCancelled { throw .cutShort(path: client.path) }
            return nil
        }
    }
}
