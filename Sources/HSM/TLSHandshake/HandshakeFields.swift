/// Reads fields of the TLS presentation language (RFC 5246 §4) in order. Each field is a slice of the original bytes,
/// so nothing is copied and no length causes an allocation.
struct HandshakeFields {
    private var rest: ArraySlice<UInt8>
    /// The message that contains the fields, for errors.
    private let message: HandshakeMessage

    init(_ bytes: ArraySlice<UInt8>, of message: HandshakeMessage) {
        rest = bytes
        self.message = message
    }

    var isAtEnd: Bool { rest.isEmpty }
    var malformed: TLSInputError { .malformed(message) }

    /// Reads a big-endian number of one, two or three bytes.
    mutating func number(bytes count: Int) throws(TLSInputError) -> Int {
        try opaque(bytes: count).reduce(0) { $0 << 8 | Int($1) }
    }

    /// Reads a field of fixed length.
    mutating func opaque(bytes count: Int) throws(TLSInputError) -> ArraySlice<UInt8> {
        guard rest.count >= count else { throw malformed }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    /// Reads a vector: a length field of `lengthBytes` bytes, then as many bytes as it states. The length must be
    /// within `range`.
    mutating func vector(
        lengthBytes: Int, _ range: ClosedRange<Int>
    ) throws(TLSInputError) -> ArraySlice<UInt8> {
        let length = try number(bytes: lengthBytes)
        guard range.contains(length) else { throw malformed }
        return try opaque(bytes: length)
    }

    /// Reads a vector as ``vector(lengthBytes:_:)`` does, and returns the fields in it.
    mutating func fields(lengthBytes: Int, _ range: ClosedRange<Int>) throws(TLSInputError) -> HandshakeFields {
        HandshakeFields(try vector(lengthBytes: lengthBytes, range), of: message)
    }

    /// Reads a vector of two-byte numbers that has at least one element.
    mutating func numbers16() throws(TLSInputError) -> [UInt16] {
        var fields = try fields(lengthBytes: 2, 2...0xFFFE)
        var numbers: [UInt16] = []
        while !fields.isAtEnd { numbers.append(UInt16(try fields.number(bytes: 2))) }
        return numbers
    }

    /// Throws if any bytes remain.
    func end() throws(TLSInputError) {
        guard isAtEnd else { throw malformed }
    }
}
