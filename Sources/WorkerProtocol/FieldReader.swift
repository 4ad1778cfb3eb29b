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
