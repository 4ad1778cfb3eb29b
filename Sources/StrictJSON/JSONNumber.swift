/// A JSON number as it was written: no precision is lost, `1099`, `1099.0` and `1.099e3` stay apart until compared.
public struct JSONNumber: Sendable, Equatable {
    /// The literal, by RFC 8259 §6's grammar.
    public let text: String

    /// An integer.
    public init(_ integer: Int) {
        text = String(integer)
    }

    /// A literal, or nil when it is not what RFC 8259 §6 calls a number.
    public init?(text: String) {
        let bytes = [UInt8](text.utf8)
        guard Self.end(in: bytes, from: 0) == bytes.count else { return nil }
        self.text = text
    }

    /// For the parser, which has found the literal's end by the grammar.
    init(wellFormed text: String) {
        self.text = text
    }

    /// The exact value, or nil when it is beyond what `ExactDecimal` carries.
    public var decimal: ExactDecimal? {
        ExactDecimal(text)
    }

    /// The value when the literal is an integer without fraction and exponent that fits, else nil.
    public var int: Int? {
        Int(text)
    }

    /// Where the number that starts at `start` ends, or nil when none starts there (RFC 8259 §6):
    ///
    ///     number = [ minus ] int [ frac ] [ exp ]
    ///     int    = zero / ( digit1-9 *DIGIT )
    ///     frac   = decimal-point 1*DIGIT
    ///     exp    = e [ minus / plus ] 1*DIGIT
    static func end(in bytes: [UInt8], from start: Int) -> Int? {
        var position = start
        func digits() -> Bool {
            let first = position
            while position < bytes.count, isDigit(bytes[position]) { position += 1 }
            return position > first
        }
        if position < bytes.count, bytes[position] == UInt8(ascii: "-") { position += 1 }
        if position < bytes.count, bytes[position] == UInt8(ascii: "0") {
            position += 1
        } else if !digits() {
            return nil
        }
        if position < bytes.count, bytes[position] == UInt8(ascii: ".") {
            position += 1
            guard digits() else { return nil }
        }
        if position < bytes.count, bytes[position] | 0x20 == UInt8(ascii: "e") {
            position += 1
            if position < bytes.count, bytes[position] == UInt8(ascii: "+") || bytes[position] == UInt8(ascii: "-") {
                position += 1
            }
            guard digits() else { return nil }
        }
        return position
    }

    static func isDigit(_ byte: UInt8) -> Bool {
        byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
    }
}
