/// One frame of the stream between the daemon and a worker.
///
/// On the wire, all integers big-endian: u32 length of the rest, u8 type, u64 request identifier, then the type's
/// fields in their fixed order. Octet strings and texts are u32 length and content, lists u16 count and elements,
/// booleans and the presence of optionals one octet 0 or 1.
public struct Frame: Sendable, Equatable {
    /// Octets before the first field, without the length prefix.
    static let headerLength = 9

    public var type: UInt8
    /// Chosen by the daemon; the answer carries the same one. Answers may come in another order than requests.
    public var identifier: UInt64
    /// The fields, not yet read.
    public var fields: ArraySlice<UInt8>

    public init(type: UInt8, identifier: UInt64, fields: ArraySlice<UInt8>) {
        self.type = type
        self.identifier = identifier
        self.fields = fields
    }
}

/// Why bytes are not a frame, or why a value cannot become one. After one of these the stream has no next frame: its
/// reader closes it.
public enum FrameError: Error, Sendable, Equatable {
    /// The length prefix is smaller than a header or larger than the stream's limit.
    case length(UInt32)
    /// A type octet that this direction does not know.
    case unknownType(UInt8)
    /// The frame ends inside a field.
    case truncated
    /// Octets remain after the last field.
    case trailingBytes
    /// A field or a list is longer than its bound in ``FieldBound``.
    case fieldTooLong
    /// A text field is not well-formed UTF-8.
    case notUTF8
    /// An enumeration, boolean or optional has a value outside its set.
    case invalidValue
}

/// Cuts a stream that arrives in arbitrary pieces into frames. Holds at most one frame's limit and one piece.
public struct FrameDecoder: Sendable {
    private let maximumLength: Int
    private var buffer: [UInt8] = []
    private var start = 0
    private var failure: FrameError?

    /// - Parameter maximumLength: Largest frame without its length prefix: ``FieldBound/requestFrame`` or
    ///   ``FieldBound/answerFrame``.
    public init(maximumLength: Int) {
        self.maximumLength = maximumLength
    }

    /// Whether the stream may end here: no frame has begun.
    public var isAtBoundary: Bool { start == buffer.count && failure == nil }

    /// Takes the next piece of the stream, of any size.
    public mutating func append(_ bytes: some Collection<UInt8>) {
        guard failure == nil else { return }
        if start == buffer.count {
            buffer.removeAll(keepingCapacity: buffer.capacity <= maximumLength)
            start = 0
        } else if start > 64 * 1024 {
            buffer.removeFirst(start)
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// The next whole frame, or nil when more bytes are needed.
    /// - Throws: ``FrameError/length(_:)`` for a length outside its bounds, now and at every later call.
    public mutating func next() throws(FrameError) -> Frame? {
        if let failure { throw failure }
        guard buffer.count - start >= 4 else { return nil }
        var length: UInt32 = 0
        for octet in buffer[start..<start + 4] { length = length << 8 | UInt32(octet) }
        guard length >= Frame.headerLength, length <= maximumLength else {
            failure = .length(length)
            buffer = []
            start = 0
            throw .length(length)
        }
        let first = start + 4
        let end = first + Int(length)
        guard buffer.count >= end else { return nil }
        var identifier: UInt64 = 0
        for octet in buffer[first + 1..<first + Frame.headerLength] { identifier = identifier << 8 | UInt64(octet) }
        // A copy, so that the frame does not keep the stream's buffer from being reused.
        let fields = Array(buffer[first + Frame.headerLength..<end])
        start = end
        return Frame(type: buffer[first], identifier: identifier, fields: fields[...])
    }
}
