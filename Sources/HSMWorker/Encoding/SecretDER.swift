import SecretMemory

/// Walks DER that must not be copied around: a private key. Gives places in the secret, never its bytes.
struct SecretDER: ~Copyable {
    let bytes: SecretBytes

    enum Tag: UInt8 {
        case integer = 0x02
        case octetString = 0x04
        case sequence = 0x30
    }

    struct Malformed: Error {}

    /// The element at `place`'s start, which moves behind it.
    /// - Returns: Where its content lies.
    func element(_ tag: Tag, in place: inout Range<Int>) throws(Malformed) -> Range<Int> {
        let (found, content) = try anyElement(in: &place)
        guard found == tag.rawValue else { throw Malformed() }
        return content
    }

    func anyElement(in place: inout Range<Int>) throws(Malformed) -> (tag: UInt8, content: Range<Int>) {
        var offset = place.lowerBound
        let tag = try byte(&offset, before: place.upperBound)
        var length = Int(try byte(&offset, before: place.upperBound))
        if length >= 0x80 {
            let octets = length - 0x80
            // A private key is shorter than 64 KiB, and indefinite lengths are not DER.
            guard octets == 1 || octets == 2 else { throw Malformed() }
            length = 0
            for _ in 0..<octets { length = length << 8 | Int(try byte(&offset, before: place.upperBound)) }
        }
        guard place.upperBound - offset >= length else { throw Malformed() }
        place = offset + length..<place.upperBound
        return (tag, offset..<offset + length)
    }

    /// A positive INTEGER's place without leading zeros.
    func positiveInteger(in place: inout Range<Int>) throws(Malformed) -> Range<Int> {
        let content = try element(.integer, in: &place)
        guard !content.isEmpty, self[content.lowerBound] < 0x80 else { throw Malformed() }
        // Only the sign's zero: in DER there is no other, and how many zeros a secret number begins with is not asked.
        return content.count > 1 && self[content.lowerBound] == 0 ? content.dropFirst(1) : content
    }

    /// Whether the bytes at a place are these public ones.
    func holds(_ expected: [UInt8], at place: Range<Int>) -> Bool {
        place.count == expected.count && zip(place, expected).allSatisfy { self[$0] == $1 }
    }

    func duplicate(_ place: Range<Int>) -> SecretBytes {
        bytes.withBytes { SecretBytes(copying: $0.extracting(place)) }
    }

    private subscript(offset: Int) -> UInt8 {
        unsafe bytes.withUnsafeBytes { unsafe $0[offset] }
    }

    private func byte(_ offset: inout Int, before end: Int) throws(Malformed) -> UInt8 {
        guard offset < end else { throw Malformed() }
        defer { offset += 1 }
        return self[offset]
    }
}
