/// Reads the fields of TLS's presentation language (RFC 5246 §4) from left to right. The fields remain in the original
/// bytes, so that nothing is copied and no length causes an allocation.
struct HandshakeFields {
    private var rest: ArraySlice<UInt8>
    /// The message that the fields are of, for errors.
    private let message: HandshakeMessage

    init(_ bytes: ArraySlice<UInt8>, of message: HandshakeMessage) {
        rest = bytes
        self.message = message
    }

    var isAtEnd: Bool { rest.isEmpty }
    var malformed: TLSInputError { .malformed(message) }

    /// A number of one, two or three bytes, the most significant first.
    mutating func number(bytes count: Int) throws(TLSInputError) -> Int {
        try opaque(bytes: count).reduce(0) { $0 << 8 | Int($1) }
    }

    /// A field of fixed length.
    mutating func opaque(bytes count: Int) throws(TLSInputError) -> ArraySlice<UInt8> {
        guard rest.count >= count else { throw malformed }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    /// A vector whose length in bytes is within `range`, after a number of `lengthBytes` bytes that gives it.
    mutating func vector(
        lengthBytes: Int, _ range: ClosedRange<Int>
    ) throws(TLSInputError) -> ArraySlice<UInt8> {
        let length = try number(bytes: lengthBytes)
        guard range.contains(length) else { throw malformed }
        return try opaque(bytes: length)
    }

    /// The fields within such a vector.
    mutating func fields(lengthBytes: Int, _ range: ClosedRange<Int>) throws(TLSInputError) -> HandshakeFields {
        HandshakeFields(try vector(lengthBytes: lengthBytes, range), of: message)
    }

    /// A vector of two-byte numbers: at least one, at most as many as its length field can express.
    mutating func numbers16() throws(TLSInputError) -> [UInt16] {
        var fields = try fields(lengthBytes: 2, 2...0xFFFE)
        var numbers: [UInt16] = []
        while !fields.isAtEnd { numbers.append(UInt16(try fields.number(bytes: 2))) }
        return numbers
    }

    /// Requires that no byte is left.
    func end() throws(TLSInputError) {
        guard isAtEnd else { throw malformed }
    }
}
