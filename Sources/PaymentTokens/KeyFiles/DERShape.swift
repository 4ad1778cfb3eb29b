/// Recognises the kind of a DER (or BER) document from its outer tags and lengths. It validates nothing; that is left
/// to the code that reads the document afterwards.
enum DERShape {
    static func content(of bytes: Span<UInt8>) -> FileContent {
        guard bytes.count >= 2, bytes[0] == Tag.sequence else { return .unknown }
        if bytes[1] == 0x80 { return indefiniteContent(of: bytes) }
        // Bytes after the outer element are left to the parser. A truncated document is unknown.
        guard let outer = element(bytes, at: 0, limit: bytes.count) else { return .unknown }
        let parts = elements(bytes, in: outer.contents, upTo: 4)
        guard let first = parts.first else { return .unknown }
        switch first.tag {
        case Tag.integer: return startingWithInteger(bytes, first, parts)
        case Tag.objectIdentifier:
            // ContentInfo (RFC 5652 §3): a type, then [0].
            return parts.count == 2 && parts[1].tag == Tag.context0 ? .pkcs7 : .unknown
        case Tag.sequence: return startingWithSequence(bytes, first, parts)
        default: return .unknown
        }
    }

    /// Consecutive elements of definite length. Bytes after the last complete element are ignored.
    static func elements(of bytes: [UInt8]) -> [[UInt8]] {
        let span = bytes.span
        var found: [[UInt8]] = []
        var position = 0
        while let next = element(span, at: position, limit: span.count) {
            found.append(Array(bytes[position..<next.contents.upperBound]))
            position = next.contents.upperBound
        }
        return found
    }

    private static func startingWithInteger(
        _ bytes: Span<UInt8>, _ first: DERElement, _ parts: [DERElement]
    ) -> FileContent {
        guard parts.count >= 2 else { return .unknown }
        let version = first.contents.count == 1 ? bytes[first.contents.lowerBound] : nil
        switch (version, parts[1].tag) {
        case (0, Tag.sequence), (1, Tag.sequence):
            return parts.count >= 3 && parts[2].tag == Tag.octetString ? .privateKey(.pkcs8) : .unknown
        case (1, Tag.octetString): return .privateKey(.sec1)
        case (0, Tag.integer): return parts.count >= 4 ? .privateKey(.pkcs1) : .unknown
        case (3, Tag.sequence): return .pkcs12
        // RSAPublicKey (RFC 8017 §A.1.1): exactly two numbers.
        case (_, Tag.integer): return parts.count == 2 ? .publicKey : .unknown
        default: return .unknown
        }
    }

    private static func startingWithSequence(
        _ bytes: Span<UInt8>, _ first: DERElement, _ parts: [DERElement]
    ) -> FileContent {
        let inner = elements(bytes, in: first.contents, upTo: 4)
        if parts.count == 2, inner.first?.tag == Tag.objectIdentifier {
            switch parts[1].tag {
            case Tag.bitString: return .publicKey
            case Tag.octetString: return .privateKey(.encryptedPKCS8)
            default: return .unknown
            }
        }
        // SIGNED{…} (RFC 5280 §4.1): the body, an algorithm, a signature.
        guard parts.count == 3, parts[1].tag == Tag.sequence, parts[2].tag == Tag.bitString else { return .unknown }
        switch inner.first?.tag {
        case Tag.context0: return .certificate
        case Tag.integer where inner.count >= 3:
            // Three kinds of document begin with an INTEGER. A version 1 certificate continues with an algorithm, an
            // issuer and a validity (a SEQUENCE). A revocation list continues with an algorithm, an issuer and a time.
            // A request continues with a name and a key.
            let second = elements(bytes, in: inner[1].contents, upTo: 1).first
            if second?.tag == Tag.objectIdentifier {
                return inner.count >= 4 && inner[3].tag == Tag.sequence ? .certificate : .revocationList
            }
            return .certificateRequest
        case Tag.sequence: return .revocationList
        default: return .unknown
        }
    }

    /// The content of BER with an indefinite length (X.690 §8.1.3.6). Streaming writers produce CMS and PKCS#12 in
    /// this form.
    private static func indefiniteContent(of bytes: Span<UInt8>) -> FileContent {
        guard bytes.count >= 5 else { return .unknown }
        if bytes[2] == Tag.objectIdentifier { return .pkcs7 }
        if bytes[2] == Tag.integer, bytes[3] == 1, bytes[4] == 3 { return .pkcs12 }
        return .unknown
    }

    private enum Tag {
        static let integer: UInt8 = 0x02
        static let bitString: UInt8 = 0x03
        static let octetString: UInt8 = 0x04
        static let objectIdentifier: UInt8 = 0x06
        static let sequence: UInt8 = 0x30
        static let context0: UInt8 = 0xA0
    }

    private struct DERElement {
        var tag: UInt8
        var contents: Range<Int>
    }

    private static func elements(_ bytes: Span<UInt8>, in range: Range<Int>, upTo maximum: Int) -> [DERElement] {
        var found: [DERElement] = []
        var position = range.lowerBound
        while position < range.upperBound, found.count < maximum,
            let next = element(bytes, at: position, limit: range.upperBound)
        {
            found.append(next)
            position = next.contents.upperBound
        }
        return found
    }

    /// One element of definite length that ends before `limit` (X.690 §8.1.3).
    private static func element(_ bytes: Span<UInt8>, at start: Int, limit: Int) -> DERElement? {
        guard limit - start >= 2 else { return nil }
        var position = start + 2
        var length = Int(bytes[start + 1])
        if length >= 0x80 {
            let count = length & 0x7F
            // Files have at most 64 KiB, so three octets can express every length that occurs.
            guard (1...3).contains(count), limit - position >= count else { return nil }
            length = 0
            for _ in 0..<count {
                length = length << 8 | Int(bytes[position])
                position += 1
            }
        }
        guard limit - position >= length else { return nil }
        return DERElement(tag: bytes[start], contents: position..<(position + length))
    }
}
