/// A value that is sent as a fixed sequence of fields.
protocol Message {
    /// Makes an empty value, whose fields a ``FieldReader`` then fills.
    init()

    /// The fields in the order on the wire. Reading and writing use the same description.
    mutating func fields<Coder: FieldCoder>(_ coder: inout Coder) throws(FrameError)
}

/// The operations that describe a message. ``FieldReader`` fills the fields from a frame, ``FieldWriter`` writes them
/// into one. Both apply the same bounds, so neither end sends a frame that the other would reject.
protocol FieldCoder {
    mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(_ value: inout Value) throws(FrameError)
    mutating func boolean(_ value: inout Bool) throws(FrameError)
    mutating func octets(_ value: inout [UInt8], atMost bound: Int) throws(FrameError)
    mutating func text(_ value: inout String, atMost bound: Int) throws(FrameError)
    /// A sentence for an operator. The writer truncates it to ``FieldBound/sentence`` bytes. Otherwise one long
    /// sentence would prevent the whole answer from being sent.
    mutating func sentence(_ value: inout String) throws(FrameError)
    /// - Parameter empty: An empty element, a copy of which receives the fields of each element that is read.
    mutating func list<Element>(
        _ elements: inout [Element], atMost bound: Int, of empty: Element,
        _ element: (inout Self, inout Element) throws(FrameError) -> Void
    ) throws(FrameError)
    /// - Parameter empty: An empty value, which receives the fields if the value is present.
    mutating func optional<Value>(
        _ value: inout Value?, or empty: Value, _ present: (inout Self, inout Value) throws(FrameError) -> Void
    ) throws(FrameError)
}

extension FieldCoder {
    mutating func integer(_ value: inout UInt32, atMost bound: UInt32) throws(FrameError) {
        try integer(&value)
        guard value <= bound else { throw .invalidValue }
    }

    /// An enumeration's raw value, one octet.
    mutating func choice<Value: RawRepresentable>(_ value: inout Value) throws(FrameError)
    where Value.RawValue == UInt8 {
        var octet = value.rawValue
        try integer(&octet)
        guard let known = Value(rawValue: octet) else { throw .invalidValue }
        value = known
    }

    mutating func messages<Element: Message>(_ elements: inout [Element], atMost bound: Int) throws(FrameError) {
        try list(&elements, atMost: bound, of: Element()) { (coder, element) throws(FrameError) in
            try element.fields(&coder)
        }
    }

    /// The message after its fields were read or written: the value that was read, or `message` unchanged.
    mutating func coded<Value: Message>(_ message: Value) throws(FrameError) -> Value {
        var message = message
        try message.fields(&self)
        return message
    }

    mutating func coded<Element: Message>(_ elements: [Element], atMost bound: Int) throws(FrameError) -> [Element] {
        var elements = elements
        try messages(&elements, atMost: bound)
        return elements
    }

    mutating func coded(_ value: [UInt8], atMost bound: Int) throws(FrameError) -> [UInt8] {
        var value = value
        try octets(&value, atMost: bound)
        return value
    }

    /// A list of octet strings.
    mutating func octetStrings(
        _ elements: inout [[UInt8]], atMost count: Int, each bound: Int
    ) throws(FrameError) {
        try list(&elements, atMost: count, of: []) { (coder, element) throws(FrameError) in
            try coder.octets(&element, atMost: bound)
        }
    }
}

/// Reads a frame's fields in order. Never reads outside the frame and never traps.
struct FieldReader: FieldCoder {
    private var rest: ArraySlice<UInt8>

    init(_ fields: ArraySlice<UInt8>) {
        rest = fields
    }

    /// Throws if any byte is left. Call it after the last field.
    func end() throws(FrameError) {
        guard rest.isEmpty else { throw .trailingBytes }
    }

    private mutating func take(_ count: Int) throws(FrameError) -> ArraySlice<UInt8> {
        guard rest.count >= count else { throw .truncated }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(_ value: inout Value) throws(FrameError) {
        var read: UInt64 = 0
        for octet in try take(Value.bitWidth / 8) { read = read << 8 | UInt64(octet) }
        value = Value(truncatingIfNeeded: read)
    }

    mutating func boolean(_ value: inout Bool) throws(FrameError) {
        var octet: UInt8 = 0
        try integer(&octet)
        switch octet {
        case 0: value = false
        case 1: value = true
        default: throw .invalidValue
        }
    }

    mutating func octets(_ value: inout [UInt8], atMost bound: Int) throws(FrameError) {
        var count: UInt32 = 0
        try integer(&count)
        guard count <= bound else { throw .fieldTooLong }
        value = Array(try take(Int(count)))
    }

    mutating func text(_ value: inout String, atMost bound: Int) throws(FrameError) {
        var octets: [UInt8] = []
        try self.octets(&octets, atMost: bound)
        guard let text = String(validating: octets, as: UTF8.self) else { throw .notUTF8 }
        value = text
    }

    mutating func sentence(_ value: inout String) throws(FrameError) {
        try text(&value, atMost: FieldBound.sentence)
    }

    mutating func list<Element>(
        _ elements: inout [Element], atMost bound: Int, of empty: Element,
        _ element: (inout FieldReader, inout Element) throws(FrameError) -> Void
    ) throws(FrameError) {
        var count: UInt16 = 0
        try integer(&count)
        guard count <= bound else { throw .fieldTooLong }
        // No memory is reserved in advance: the sender may claim any count.
        elements = []
        for _ in 0..<count {
            var next = empty
            try element(&self, &next)
            elements.append(next)
        }
    }

    mutating func optional<Value>(
        _ value: inout Value?, or empty: Value, _ present: (inout FieldReader, inout Value) throws(FrameError) -> Void
    ) throws(FrameError) {
        var isPresent = false
        try boolean(&isPresent)
        guard isPresent else {
            value = nil
            return
        }
        var read = empty
        try present(&self, &read)
        value = read
    }
}

/// Writes one frame. It does not change its arguments, although they are `inout`.
struct FieldWriter: FieldCoder {
    private var bytes: [UInt8] = [0, 0, 0, 0]

    init(type: UInt8, identifier: UInt64, capacity: Int = 256) {
        bytes.reserveCapacity(capacity + 4 + Frame.headerLength)
        append(type)
        append(identifier)
    }

    /// The whole frame with its length prefix.
    consuming func frame(atMost limit: Int) throws(FrameError) -> [UInt8] {
        let length = bytes.count - 4
        guard length <= limit else { throw .length(UInt32(clamping: length)) }
        for index in 0..<4 { bytes[index] = UInt8(truncatingIfNeeded: length >> (24 - 8 * index)) }
        return bytes
    }

    private mutating func append(_ value: some FixedWidthInteger & UnsignedInteger) {
        for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(_ value: inout Value) throws(FrameError) {
        append(value)
    }

    mutating func boolean(_ value: inout Bool) throws(FrameError) {
        bytes.append(value ? 1 : 0)
    }

    mutating func octets(_ value: inout [UInt8], atMost bound: Int) throws(FrameError) {
        guard value.count <= bound else { throw .fieldTooLong }
        append(UInt32(value.count))
        bytes.append(contentsOf: value)
    }

    mutating func text(_ value: inout String, atMost bound: Int) throws(FrameError) {
        var octets = Array(value.utf8)
        try self.octets(&octets, atMost: bound)
    }

    mutating func sentence(_ value: inout String) throws(FrameError) {
        var cut = value.prefix(utf8Count: FieldBound.sentence)
        try text(&cut, atMost: FieldBound.sentence)
    }

    mutating func list<Element>(
        _ elements: inout [Element], atMost bound: Int, of empty: Element,
        _ element: (inout FieldWriter, inout Element) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard elements.count <= bound, let count = UInt16(exactly: elements.count) else { throw .fieldTooLong }
        append(count)
        for var next in elements { try element(&self, &next) }
    }

    mutating func optional<Value>(
        _ value: inout Value?, or empty: Value, _ present: (inout FieldWriter, inout Value) throws(FrameError) -> Void
    ) throws(FrameError) {
        bytes.append(value == nil ? 0 : 1)
        if var written = value { try present(&self, &written) }
    }
}

/// One frame of the stream between the daemon and a worker.
///
/// A frame is the u32 length of the rest, a u8 type, a u64 request identifier, and the type's fields in their fixed
/// order. All integers are big-endian. An octet string or a text is its u32 length and its content. A list is its u16
/// count and its elements. A boolean, or the presence of an optional, is one octet, 0 or 1.
public struct Frame: Sendable, Equatable {
    /// Octets before the first field, without the length prefix.
    static let headerLength = 9

    public var type: UInt8
    /// The identifier that the daemon chose; the answer carries the same one. Answers may arrive in a different order
    /// from requests.
    public var identifier: UInt64
    /// The fields, not yet read.
    public var fields: ArraySlice<UInt8>

    public init(type: UInt8, identifier: UInt64, fields: ArraySlice<UInt8>) {
        self.type = type
        self.identifier = identifier
        self.fields = fields
    }
}

/// The reasons why bytes are not a frame, or a value cannot become one. After any of these the stream has no next
/// frame, and its reader closes it.
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

/// Cuts a stream that arrives in arbitrary pieces into frames. Buffers at most one frame of the largest size and one
/// piece.
public struct FrameDecoder: Sendable {
    private let maximumLength: Int
    private var buffer: [UInt8] = []
    private var start = 0
    private var failure: FrameError?

    /// - Parameter maximumLength: The largest frame without its length prefix: ``FieldBound/requestFrame`` or
    ///   ``FieldBound/answerFrame``.
    public init(maximumLength: Int) {
        self.maximumLength = maximumLength
    }

    /// Returns true if the stream may end here: no frame has begun.
    public var isAtBoundary: Bool { start == buffer.count && failure == nil }

    /// Appends the next piece of the stream, of any size.
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

    /// The next whole frame, or nil if more bytes are needed.
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
        // The fields are copied. A slice would retain the stream's buffer, which could then not be reused.
        let fields = Array(buffer[first + Frame.headerLength..<end])
        start = end
        return Frame(type: buffer[first], identifier: identifier, fields: fields[...])
    }
}
