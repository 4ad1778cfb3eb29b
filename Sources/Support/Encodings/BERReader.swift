/// One element of a BER or DER encoding (X.690 §8.1): the positions of its parts in the parsed bytes.
public struct BERElement: Sendable, Equatable {
    /// The identifier octet (§8.1.2): class, constructed or primitive, and a tag number below 31.
    public let identifier: UInt8
    /// The range from the identifier octet to the last octet, including the end-of-contents octets.
    public let range: Range<Int>
    /// The contents octets.
    public let content: Range<Int>

    public var isConstructed: Bool { identifier & 0x20 != 0 }

    // Identifier octets (X.680 §8.4), including the constructed bit for types that are always constructed.
    public static let integer: UInt8 = 0x02
    public static let octetString: UInt8 = 0x04
    public static let null: UInt8 = 0x05
    public static let objectIdentifier: UInt8 = 0x06
    public static let sequence: UInt8 = 0x30
    public static let set: UInt8 = 0x31

    /// `[number]`, constructed.
    public static func constructed(contextSpecific number: UInt8) -> UInt8 { 0xA0 | number }
}

/// Reads a sequence of elements from left to right, each as a range of bytes. It copies nothing and makes no tree.
///
/// swift-asn1 creates a node for every element before the first one can be read. For a payment token's signature of
/// 2,600 bytes, that takes as long as verifying a signature. Most of these bytes are two certificates whose content is
/// not needed. Where speed does not matter, this program uses swift-asn1.
///
/// The reader accepts identifiers of one octet and definite lengths. With the basic rules, it also accepts constructed
/// elements of indefinite length, and lengths in more octets than needed. It does not check the content of elements of
/// definite length; ``checkNested()`` does.
public struct BERReader: Sendable {
    public enum Rules: Sendable {
        /// BER (§8).
        case basic
        /// DER (§10.1): definite lengths in the fewest octets.
        case distinguished
    }

    /// A missing, malformed or unexpected element.
    public struct Malformed: Error {
        public init() {}
    }

    /// The maximum number of nested constructed elements of indefinite length, and the maximum depth in
    /// ``checkNested()``.
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

    /// Returns a reader of the elements within a constructed element.
    public func elements(of element: BERElement) throws(Malformed) -> BERReader {
        guard element.isConstructed else { throw Malformed() }
        return BERReader(bytes, element.content, rules)
    }

    public func content(of element: BERElement) -> ArraySlice<UInt8> { bytes[element.content] }

    /// The element's identifier, length and contents.
    public func encoding(of element: BERElement) -> ArraySlice<UInt8> { bytes[element.range] }

    /// Checks that all bytes up to the end are elements, and so are the contents of constructed ones.
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
        // Refuses identifiers of several octets, and [UNIVERSAL 0], which is reserved for end-of-contents octets.
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
            // Lengths of more than four octets exceed every size limit of the input.
            guard octets <= 4, end - contentStart >= octets else { throw Malformed() }
            length = bytes[contentStart..<contentStart + octets].reduce(0) { $0 << 8 | Int($1) }
            if rules == .distinguished, length < 0x80 || length >> (8 * (octets - 1)) == 0 { throw Malformed() }
            contentStart += octets
        }
        guard length <= end - contentStart else { throw Malformed() }
        let contentEnd = contentStart + length
        return BERElement(identifier: identifier, range: start..<contentEnd, content: contentStart..<contentEnd)
    }

    /// The position of the end-of-contents octets of an element of indefinite length (§8.1.5).
    private func endOfContents(from start: Int, end: Int, depth: Int) throws(Malformed) -> Int {
        var position = start
        while true {
            guard end - position >= 2 else { throw Malformed() }
            if bytes[position] == 0, bytes[position + 1] == 0 { return position }
            position = try element(at: position, end: end, depth: depth + 1).range.upperBound
        }
    }
}
