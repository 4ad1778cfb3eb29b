/// Percent-encoding, RFC 3986 §2.1.
public enum PercentEncoding {
    /// Decodes strictly. Nil for a percent sign without two hexadecimal digits, for text that is not UTF-8, and for
    /// control characters. The characters allowed without encoding depend on the part of a URI, so the caller must
    /// check them.
    ///
    /// - Parameter plusIsSpace: true for a query that an HTML form has encoded.
    public static func decoded(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(Hexadecimal.value),
                    let low = rest.popFirst().flatMap(Hexadecimal.value)
                else { return nil }
                bytes.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
            default: bytes.append(byte)
            }
        }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }

    /// Encodes all but the unreserved characters (§2.3), so that the result can be used in any part of a URI.
    public static func encoded(_ text: String) -> String {
        var encoded: [UInt8] = []
        for byte in text.utf8 {
            if isUnreserved(byte) {
                encoded.append(byte)
            } else {
                encoded.append(UInt8(ascii: "%"))
                encoded.append(contentsOf: Hexadecimal.encode([byte]).uppercased().utf8)
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): true
        default: false
        }
    }
}
