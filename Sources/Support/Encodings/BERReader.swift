/// One element of a BER or DER encoding (X.690 §8.1): where its parts stand in the bytes that it was read from.
public struct BERElement: Sendable, Equatable {
    /// The identifier octet (§8.1.2): class, whether it is constructed, and a tag number below 31.
    public let identifier: UInt8
    /// From the identifier octet to the last octet, end-of-contents octets included.
    public let range: Range<Int>
    /// The contents octets.
    public let content: Range<Int>

    public var isConstructed: Bool { identifier & 0x20 != 0 }

    // Identifier octets (X.680 §8.4), constructed where the type always is.
    public static let integer: UInt8 = 0x02
    public static let octetString: UInt8 = 0x04
    public static let null: UInt8 = 0x05
    public static let objectIdentifier: UInt8 = 0x06
    public static let sequence: UInt8 = 0x30
    public static let set: UInt8 = 0x31

    /// `[number]`, constructed.
    public static func constructed(contextSpecific number: UInt8) -> UInt8 { 0xA0 | number }
}

/// Reads a sequence of elements from left to right, each as the range of bytes in which it stands: nothing is copied and
/// no tree is made.
///
/// swift-asn1 makes a node of everything that a text holds before the first of them can be looked at, which takes as long
/// as verifying a signature for the 2,600 bytes of a payment token's signature, most of them two certificates whose inside
/// nobody reads. Where speed does not matter swift-asn1 is the reader here.
///
/// Read are identifiers of one octet, definite lengths and, by the basic rules, indefinite ones of constructed elements
/// and lengths in more octets than needed. What has a definite length is not looked into: ``checkNested()`` does that.
public struct BERReader: Sendable {
    public enum Rules: Sendable {
        /// BER (§8).
        case basic
        /// DER (§10.1): definite lengths in the fewest octets.
        case distinguished
    }

    /// Not an element where one had to be, or not the expected one.
    public struct Malformed: Error {
        public init() {}
    }

    /// How many constructed elements of indefinite length may be within each other, and how deep ``checkNested()`` goes.
    public static let maximumDepth = 32

    private let bytes: [UInt8]
    private let rules: Rules
    private let end: Int
    private var position: Int

    public init(_ bytes: [UInt8], _ rules: Rules) {
        self.init(bytes, bytes.indices, rules)
    }

    private init(_ bytes: [UInt8], _ range: Range<Int>, _ rules: Rules) {
        self.bytes = bytes
        self.rules = rules
        position = range.lowerBound
        end = range.upperBound
    }

    public var isAtEnd: Bool { position == end }

    /// The identifier octet of the next element; nil at the end.
    public var nextIdentifier: UInt8? { isAtEnd ? nil : bytes[position] }

    /// The next element.
    public mutating func next() throws(Malformed) -> BERElement {
        let element = try element(at: position, end: end, depth: 0)
        position = element.range.upperBound
        return element
    }

    /// The next element, which must have this identifier octet.
    public mutating func next(_ identifier: UInt8) throws(Malformed) -> BERElement {
        guard nextIdentifier == identifier else { throw Malformed() }
        return try next()
    }

    /// The elements within a constructed one.
    public func elements(of element: BERElement) throws(Malformed) -> BERReader {
        guard element.isConstructed else { throw Malformed() }
        return BERReader(bytes, element.content, rules)
    }

    public func content(of element: BERElement) -> ArraySlice<UInt8> { bytes[element.content] }

    /// Identifier, length and contents.
    public func encoding(of element: BERElement) -> ArraySlice<UInt8> { bytes[element.range] }

    /// Whether everything up to the end is elements, and everything within constructed ones too.
    public func checkNested() throws(Malformed) {
        try checkNested(depth: 0)
    }

    private func checkNested(depth: Int) throws(Malformed) {
        guard depth <= Self.maximumDepth else { throw Malformed() }
        var reader = self
        while !reader.isAtEnd {
            let element = try reader.next()
            if element.isConstructed { try reader.elements(of: element).checkNested(depth: depth + 1) }
        }
    }

    private func element(at start: Int, end: Int, depth: Int) throws(Malformed) -> BERElement {
        guard end - start >= 2 else { throw Malformed() }
        let identifier = bytes[start]
        // Identifiers of several octets, and [UNIVERSAL 0], which is kept for end-of-contents octets.
        guard identifier & 0x1F != 0x1F, identifier & 0xDF != 0 else { throw Malformed() }
        let first = bytes[start + 1]
        guard first != 0x80 else {
            guard rules == .basic, identifier & 0x20 != 0, depth < Self.maximumDepth else { throw Malformed() }
            let content = start + 2..<(try endOfContents(from: start + 2, end: end, depth: depth))
            return BERElement(identifier: identifier, range: start..<content.upperBound + 2, content: content)
        }
        var contentStart = start + 2
        var length = Int(first)
        if first > 0x80 {
            let octets = Int(first & 0x7F)
            // Four octets are more than any limit on what is read here.
            guard octets <= 4, end - contentStart >= octets else { throw Malformed() }
            length = bytes[contentStart..<contentStart + octets].reduce(0) { $0 << 8 | Int($1) }
            if rules == .distinguished, length < 0x80 || length >> (8 * (octets - 1)) == 0 { throw Malformed() }
            contentStart += octets
        }
        guard length <= end - contentStart else { throw Malformed() }
        let contentEnd = contentStart + length
        return BERElement(identifier: identifier, range: start..<contentEnd, content: contentStart..<contentEnd)
    }

    /// Where the end-of-contents octets stand that end an element of indefinite length (§8.1.5).
    private func endOfContents(from start: Int, end: Int, depth: Int) throws(Malformed) -> Int {
        var position = start
        while true {
            guard end - position >= 2 else { throw Malformed() }
            if bytes[position] == 0, bytes[position + 1] == 0 { return position }
            position = try element(at: position, end: end, depth: depth + 1).range.upperBound
        }
    }
}
