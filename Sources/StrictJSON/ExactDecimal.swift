/// A decimal number of at most 64 significant digits, exact: `1099`, `1099.0` and `1.099e3` are equal.
///
/// Amounts are compared with it, never with binary floating point. It has equality and no order, because nothing here
/// may ask whether an amount is "about" another.
public struct ExactDecimal: Sendable, Hashable {
    /// The most significant digits that are carried; no currency comes near.
    public static let maximumDigits = 64
    /// The largest power of ten, up or down, that is carried.
    public static let maximumExponent = 1000

    /// Whether it is below zero; zero itself is not.
    public let isNegative: Bool
    /// The significant digits' values (0–9), the first and the last not zero; empty for zero.
    public let digits: [UInt8]
    /// The power of ten by which `digits`, taken as an integer, is multiplied; 0 for zero.
    public let exponent: Int

    /// Reads a JSON number literal (RFC 8259 §6). Nil when `text` is anything else, or has more significant digits or
    /// a larger exponent than this type carries.
    public init?(_ text: String) {
        let bytes = [UInt8](text.utf8)
        guard JSONNumber.end(in: bytes, from: 0) == bytes.count else { return nil }

        var digits: [UInt8] = []
        var fractionDigits = 0
        var inFraction = false
        var position = bytes[0] == UInt8(ascii: "-") ? 1 : 0
        while position < bytes.count, bytes[position] | 0x20 != UInt8(ascii: "e") {
            if bytes[position] == UInt8(ascii: ".") {
                inFraction = true
            } else {
                if inFraction { fractionDigits += 1 }
                digits.append(bytes[position] - UInt8(ascii: "0"))
            }
            position += 1
        }

        var written = 0
        var beyond = false
        if position < bytes.count {
            position += 1
            let down = bytes[position] == UInt8(ascii: "-")
            for byte in bytes[position...] where JSONNumber.isDigit(byte) {
                written = written * 10 + Int(byte - UInt8(ascii: "0"))
                // Enough to know that nothing brings it back within bounds.
                if written > 1_000_000 {
                    beyond = true
                    break
                }
            }
            if down { written = -written }
        }

        var trailingZeros = 0
        while let last = digits.last, last == 0 {
            digits.removeLast()
            trailingZeros += 1
        }
        digits.removeFirst(digits.prefix { digit in digit == 0 }.count)
        guard !digits.isEmpty else {
            (self.isNegative, self.digits, self.exponent) = (false, [], 0)
            return
        }
        let exponent = written - fractionDigits + trailingZeros
        guard !beyond, digits.count <= Self.maximumDigits, abs(exponent) <= Self.maximumExponent else { return nil }
        (self.isNegative, self.digits, self.exponent) = (bytes[0] == UInt8(ascii: "-"), digits, exponent)
    }

    /// An integer.
    public init(_ integer: Int) {
        var digits = Array(String(integer.magnitude).utf8.map { byte in byte - UInt8(ascii: "0") })
        var exponent = 0
        while let last = digits.last, last == 0 {
            digits.removeLast()
            exponent += 1
        }
        (self.isNegative, self.digits, self.exponent) = (integer < 0, digits, digits.isEmpty ? 0 : exponent)
    }
}
