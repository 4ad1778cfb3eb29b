/// Reads a frame's fields in order, each against its bound. Never reads outside the frame and never traps.
struct FieldReader {
    private var rest: ArraySlice<UInt8>

    init(_ fields: ArraySlice<UInt8>) {
        rest = fields
    }

    /// To be called after the last field.
    func end() throws(FrameError) {
        guard rest.isEmpty else { throw .trailingBytes }
    }

    private mutating func take(_ count: Int) throws(FrameError) -> ArraySlice<UInt8> {
        guard rest.count >= count else { throw .truncated }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    mutating func integer<Value: FixedWidthInteger & UnsignedInteger>(
        _ type: Value.Type = Value.self
    ) throws(FrameError) -> Value {
        var value: UInt64 = 0
        for octet in try take(Value.bitWidth / 8) { value = value << 8 | UInt64(octet) }
        return Value(truncatingIfNeeded: value)
    }

    mutating func boolean() throws(FrameError) -> Bool {
        switch try integer(UInt8.self) {
        case 0: return false
        case 1: return true
        default: throw .invalidValue
        }
    }

    mutating func octets(atMost bound: Int) throws(FrameError) -> [UInt8] {
        let count = try integer(UInt32.self)
        guard count <= bound else { throw .fieldTooLong }
        return Array(try take(Int(count)))
    }

    mutating func text(atMost bound: Int) throws(FrameError) -> String {
        guard let text = String(validating: try octets(atMost: bound), as: UTF8.self) else { throw .notUTF8 }
        return text
    }

    mutating func list<Element>(
        atMost bound: Int, _ element: (inout FieldReader) throws(FrameError) -> Element
    ) throws(FrameError) -> [Element] {
        let count = try integer(UInt16.self)
        guard count <= bound else { throw .fieldTooLong }
        var elements: [Element] = []
        // Nothing is reserved ahead: the count is the sender's word.
        for _ in 0..<count { elements.append(try element(&self)) }
        return elements
    }

    mutating func optional<Value>(
        _ value: (inout FieldReader) throws(FrameError) -> Value
    ) throws(FrameError) -> Value? {
        try boolean() ? try value(&self) : nil
    }
}

/// Writes one frame, each field against the bound that the reader applies.
struct FieldWriter {
    private var bytes: [UInt8] = [0, 0, 0, 0]

    init(type: UInt8, identifier: UInt64, capacity: Int = 256) {
        bytes.reserveCapacity(capacity + 4 + Frame.headerLength)
        integer(type)
        integer(identifier)
    }

    /// The whole frame with its length prefix.
    consuming func frame(atMost limit: Int) throws(FrameError) -> [UInt8] {
        let length = bytes.count - 4
        guard length <= limit else { throw .length(UInt32(clamping: length)) }
        for index in 0..<4 { bytes[index] = UInt8(truncatingIfNeeded: length >> (24 - 8 * index)) }
        return bytes
    }

    mutating func integer(_ value: some FixedWidthInteger & UnsignedInteger) {
        for shift in stride(from: value.bitWidth - 8, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: value >> shift))
        }
    }

    mutating func boolean(_ value: Bool) {
        bytes.append(value ? 1 : 0)
    }

    mutating func octets(_ value: [UInt8], atMost bound: Int) throws(FrameError) {
        guard value.count <= bound else { throw .fieldTooLong }
        integer(UInt32(value.count))
        bytes.append(contentsOf: value)
    }

    mutating func text(_ value: String, atMost bound: Int) throws(FrameError) {
        try octets(Array(value.utf8), atMost: bound)
    }

    /// A sentence for a person. One that is too long is cut: a failure that cannot be told would cost the whole answer.
    mutating func sentence(_ value: String) throws(FrameError) {
        try text(value.prefix(utf8Count: FieldBound.sentence), atMost: FieldBound.sentence)
    }

    mutating func list<Element>(
        _ elements: [Element], atMost bound: Int,
        _ write: (inout FieldWriter, Element) throws(FrameError) -> Void
    ) throws(FrameError) {
        guard elements.count <= bound, let count = UInt16(exactly: elements.count) else { throw .fieldTooLong }
        integer(count)
        for element in elements { try write(&self, element) }
    }

    mutating func optional<Value>(
        _ value: Value?, _ write: (inout FieldWriter, Value) throws(FrameError) -> Void
    ) throws(FrameError) {
        boolean(value != nil)
        if let value { try write(&self, value) }
    }
}
