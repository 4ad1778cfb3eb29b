// Encodings of bytes, times and keys. Each rule has one implementation in this module, which all readers and writers of
// such texts use.
//
//     Hexadecimal, Base64      RFC 4648, in this file
//     RFC3339                  times, based on GregorianCalendar (Times.swift)
//     DurationText             `90s`, durations of the configuration and the command line (Times.swift)
//     PercentEncoding          RFC 3986 §2.1
//     Int.grouped              counts with commas between thousands, for human readers
//     TokenURI                 RFC 7512, the part that identifies a PKCS#11 token
//     KeyReference             a user's name for a merchant key: base64 of its publicKeyHash, or the first hex digits
//     SubjectPublicKeyInfo     P-256 and RSA-2048, parsed and encoded
//     CertificateFields        the encoded parts of a TBSCertificate
//
// The module contains no policy, does no I/O and reads no clock. Parsers accept the standard's form and return nil (or
// throw) for everything else. Three parsers elsewhere are deliberately separate. StrictJSON parses the digits of `\u`
// escapes by its own grammar and imports nothing. KeyFiles decodes the base64 of private keys entirely within wiped
// memory. TokenForge shares no code with the code that it tests.

/// Hexadecimal text, RFC 4648 §8: either case is read, and lower case is written.
public enum Hexadecimal {
    /// The bytes in `text`; nil if it has a character other than 0–9, a–f, A–F, or an odd number of them.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        decode(Array(text.utf8)[...], takesUpperCase: true)
    }

    /// The bytes in text written by ``encode(_:)``. It refuses upper case, so that the spelling is unique.
    public static func decode(lowerCase text: String) -> [UInt8]? {
        decode(lowerCase: Array(text.utf8)[...])
    }

    public static func decode(lowerCase digits: ArraySlice<UInt8>) -> [UInt8]? {
        decode(digits, takesUpperCase: false)
    }

    /// Returns true if all characters are digits as ``encode(_:)`` writes them, in lower case. Any number of digits is
    /// allowed.
    public static func isLowerCase(_ digits: some Collection<UInt8>) -> Bool {
        digits.allSatisfy { digit in
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
            default: false
            }
        }
    }

    /// The value of one digit in either case, in ASCII.
    public static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    /// Two lower-case digits for each byte.
    public static func encode(_ bytes: some Collection<UInt8>) -> String {
        encode(Array(bytes))
    }

    public static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 2)
        for byte in bytes {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 0x0F)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func decode(_ digits: ArraySlice<UInt8>, takesUpperCase: Bool) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 2)
        var high: UInt8?
        for digit in digits {
            guard let value = value(of: digit), takesUpperCase || !isUpperCase(digit) else { return nil }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return high == nil ? bytes : nil
    }

    private static func isUpperCase(_ digit: UInt8) -> Bool {
        (UInt8(ascii: "A")...UInt8(ascii: "F")).contains(digit)
    }

    private static let digits = [UInt8]("0123456789abcdef".utf8)
}

/// Base64 in the standard alphabet, RFC 4648 §4; written with padding.
public enum Base64 {
    /// The rule for `=` at the end of a text whose last group is incomplete.
    public enum Padding: Sendable {
        /// Padding is optional: payment tokens occur with and without it.
        case optional
        case required
    }

    /// The bytes in `text`; nil if it is not base64.
    ///
    /// It refuses the URL alphabet, white space such as line breaks, incomplete padding, and bits set after the last
    /// byte (§3.5). The same bytes therefore have no second spelling except the one without padding.
    public static func decode(_ text: String, padding: Padding = .optional) -> [UInt8]? {
        var characters = [UInt8](text.utf8)
        if padding == .required, characters.count % 4 != 0 { return nil }
        if characters.last == UInt8(ascii: "=") {
            guard characters.count % 4 == 0 else { return nil }
            characters.removeLast()
            if characters.last == UInt8(ascii: "=") { characters.removeLast() }
        }
        guard characters.count % 4 != 1 else { return nil }

        let values = Self.values
        // Four characters encode three bytes; a remainder of two or three characters encodes one or two bytes.
        let (groups, rest) = characters.count.quotientAndRemainder(dividingBy: 4)
        var bytes = [UInt8](repeating: 0, count: groups * 3 + rest * 3 / 4)
        var read = 0
        var written = 0
        for _ in 0..<groups {
            let first = values[Int(characters[read])]
            let second = values[Int(characters[read + 1])]
            let third = values[Int(characters[read + 2])]
            let fourth = values[Int(characters[read + 3])]
            guard (first | second | third | fourth) < 64 else { return nil }
            bytes[written] = first << 2 | second >> 4
            bytes[written + 1] = second << 4 | third >> 2
            bytes[written + 2] = third << 6 | fourth
            read += 4
            written += 3
        }
        guard rest > 0 else { return bytes }
        let first = values[Int(characters[read])]
        let second = values[Int(characters[read + 1])]
        let third = rest == 3 ? values[Int(characters[read + 2])] : 0
        guard (first | second | third) < 64 else { return nil }
        bytes[written] = first << 2 | second >> 4
        if rest == 3 { bytes[written + 1] = second << 4 | third >> 2 }
        // The bits after the last byte must be zero. Otherwise different last characters would encode the same bytes.
        let unused = rest == 3 ? third << 6 : second << 4
        return unused == 0 ? bytes : nil
    }

    /// The value of one character of the alphabet, 0 to 63.
    public static func value(of character: UInt8) -> UInt8? {
        let value = values[Int(character)]
        return value < 64 ? value : nil
    }

    /// Base64 text with padding.
    public static func encode(_ bytes: some Collection<UInt8>) -> String {
        encode(Array(bytes))
    }

    public static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var buffer: UInt32 = 0
        var bits = 0
        for byte in bytes {
            buffer = buffer << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(buffer >> UInt32(bits)) & 0x3F])
            }
            buffer &= (1 << UInt32(bits)) - 1
        }
        if bits > 0 { text.append(alphabet[Int(buffer << UInt32(6 - bits)) & 0x3F]) }
        while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
        return String(decoding: text, as: UTF8.self)
    }

    private static let alphabet = [UInt8]("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// The value of each character; 255 for characters outside the alphabet.
    private static let values: [UInt8] = {
        var values = [UInt8](repeating: 255, count: 256)
        for (value, character) in alphabet.enumerated() { values[Int(character)] = UInt8(value) }
        return values
    }()
}
