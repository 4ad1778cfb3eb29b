// JSON (RFC 8259), parsed strictly, with limits and without loss, and written compactly. The module imports nothing.
//
// Callers: the parsers of text from untrusted callers (payment tokens, requests), records and logs. Guarantees: exactly
// one value, no repeated member name, valid UTF-8, limited depth, and time linear in the number of bytes. Numbers keep
// their text.
//
// Start with `JSONValue(parsing:limits:)` in this file, then `JSONWriter`. JSONParser.swift contains the grammar, and
// `JSONNumber` the exact decimals for comparing amounts.

/// One JSON value (RFC 8259), parsed without loss: numbers keep their text, and objects their order.
///
/// Equality is by bytes. Strings and member names compare by their UTF-8 bytes, not by Unicode's canonical equivalence
/// as Swift's `String` does. Numbers compare by their text, and objects compare regardless of the order of their
/// members.
public enum JSONValue: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// Parses exactly one JSON text: strict UTF-8 without a byte order mark, only RFC 8259's grammar, and only white
    /// space around the value. A member name that occurs twice in one object is an error, even if its two spellings use
    /// different escapes. An unpaired surrogate is an error too.
    ///
    /// Time is linear in the number of bytes. The caller limits that number; `limits` restricts the depth.
    ///
    /// - Throws: `JSONError` with the offset of the first wrong byte.
    public init(parsing bytes: [UInt8], limits: JSONLimits = .default) throws(JSONError) {
        var parser = JSONParser(bytes: bytes, limits: limits)
        self = try parser.parseText()
    }

    /// The value in compact form, written by ``JSONWriter``.
    public var compact: [UInt8] {
        var writer = JSONWriter(capacity: 768)
        writer.value(self)
        return writer.bytes
    }

    /// Parses exactly one JSON text from a string's UTF-8. See `init(parsing:limits:)`.
    public init(parsing text: String, limits: JSONLimits = .default) throws(JSONError) {
        try self.init(parsing: [UInt8](text.utf8), limits: limits)
    }
}

extension JSONValue {
    /// True if this is `null`.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// The boolean; nil for other types.
    public var boolValue: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The number; nil for other types.
    public var numberValue: JSONNumber? {
        if case .number(let value) = self { value } else { nil }
    }

    /// The string; nil for other types.
    public var stringValue: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The array's elements; nil for other types.
    public var arrayValue: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The object; nil for other types.
    public var objectValue: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }
}

extension JSONValue: Equatable {
    public static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.hasSameBytes(as: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }
}

/// A JSON object: its members in the order of the text, without a repeated name.
public struct JSONObject: Sendable {
    /// The members in the order of the text.
    public let members: [(name: String, value: JSONValue)]

    /// An object of these members, or nil if a name occurs twice.
    public init?(_ members: [(name: String, value: JSONValue)]) {
        guard Self.firstRepeatedName(in: members) == nil else { return nil }
        self.members = members
    }

    /// The object without members.
    public init() {
        members = []
    }

    /// Makes an object for the parser, which has already checked for repeated names.
    init(distinct members: [(name: String, value: JSONValue)]) {
        self.members = members
    }

    /// The value of the member with exactly this name, byte for byte; nil if there is none.
    public subscript(name: String) -> JSONValue? {
        for member in members where member.name.hasSameBytes(as: name) {
            return member.value
        }
        return nil
    }

    /// The position of the first repeated name; nil if there is none.
    ///
    /// Names are compared as bytes: `String`'s own equality treats the Kelvin sign as the letter K.
    static func firstRepeatedName(in members: [(name: String, value: JSONValue)]) -> Int? {
        // Most objects have few members, and comparing all pairs costs less than hashing them.
        guard members.count > 16 else {
            for later in members.indices.dropFirst() {
                for earlier in 0..<later where members[earlier].name.hasSameBytes(as: members[later].name) {
                    return later
                }
            }
            return nil
        }
        var seen = Set<[UInt8]>(minimumCapacity: members.count)
        for position in members.indices where !seen.insert([UInt8](members[position].name.utf8)).inserted {
            return position
        }
        return nil
    }
}

extension JSONObject: Equatable {
    /// Returns true if the members are equal, in any order.
    public static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.members.count == right.members.count else { return false }
        let values = Dictionary(
            uniqueKeysWithValues: right.members.map { member in ([UInt8](member.name.utf8), member.value) })
        return left.members.allSatisfy { member in values[[UInt8](member.name.utf8)] == member.value }
    }
}

extension String {
    /// Different names usually differ in length, so the length is compared first.
    fileprivate func hasSameBytes(as other: String) -> Bool {
        let (bytes, others) = (utf8.span, other.utf8.span)
        guard bytes.count == others.count else { return false }
        for place in bytes.indices where bytes[place] != others[place] { return false }
        return true
    }
}

/// A JSON number as written. No precision is lost: `1099`, `1099.0` and `1.099e3` remain different until they are
/// compared.
public struct JSONNumber: Sendable, Equatable {
    /// The literal, in the grammar of RFC 8259 §6.
    public let text: String

    /// Makes a number from an integer.
    public init(_ integer: Int) {
        text = String(integer)
    }

    /// Makes a number from a literal; nil if it is not a number of RFC 8259 §6.
    public init?(text: String) {
        let bytes = [UInt8](text.utf8)
        guard Self.end(in: bytes, from: 0) == bytes.count else { return nil }
        self.text = text
    }

    /// Makes a number for the parser, which has found the literal's end by the grammar.
    init(wellFormed text: String) {
        self.text = text
    }

    /// The exact value; nil if it exceeds the limits of `ExactDecimal`.
    public var decimal: ExactDecimal? {
        ExactDecimal(text)
    }

    /// The value of an integer literal without fraction and exponent; nil for other literals, and if the value does not
    /// fit.
    public var int: Int? {
        Int(text)
    }

    /// The same value without an exponent or trailing zeros in the fraction: `1099` for `1099.0` and `1.099e3`. The
    /// number is unchanged if this form needs more than ``ExactDecimal/maximumDigits`` digits.
    public var plain: JSONNumber {
        guard let decimal, decimal.digits.count + abs(decimal.exponent) <= ExactDecimal.maximumDigits else {
            return self
        }
        var digits = decimal.digits.map { digit in UInt8(ascii: "0") + digit }
        let zeros = [UInt8](repeating: UInt8(ascii: "0"), count: abs(decimal.exponent))
        if decimal.exponent >= 0 {
            digits += zeros
        } else {
            let whole = digits.count + decimal.exponent
            if whole < 1 { digits = zeros.prefix(1 - whole) + digits }
            digits.insert(UInt8(ascii: "."), at: max(whole, 1))
        }
        let text = digits.isEmpty ? "0" : String(decoding: digits, as: UTF8.self)
        return JSONNumber(wellFormed: decimal.isNegative ? "-" + text : text)
    }

    /// The end of the number that starts at `start`; nil if there is none (RFC 8259 §6):
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

/// An exact decimal number of at most 64 significant digits: `1099`, `1099.0` and `1.099e3` are equal.
///
/// Amounts are compared with this type, never with binary floating point. It supports equality but no ordering, so that
/// no code can test whether an amount is "about" another.
public struct ExactDecimal: Sendable, Hashable {
    /// The largest number of significant digits; no currency needs that many.
    public static let maximumDigits = 64
    /// The largest exponent of ten, positive or negative.
    public static let maximumExponent = 1000

    /// True if the number is below zero; false for zero.
    public let isNegative: Bool
    /// The significant digits' values (0–9), the first and the last not zero; empty for zero.
    public let digits: [UInt8]
    /// The power of ten by which the integer made of `digits` is multiplied; 0 for zero.
    public let exponent: Int

    /// Parses a JSON number literal (RFC 8259 §6). Nil if `text` is not one, or has more significant digits or a larger
    /// exponent than this type allows.
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
                // Only about a million further digits could bring the value back within the limits, so the number is
                // refused. The loop ends here, because `written` could otherwise overflow.
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

    /// Makes a decimal from an integer.
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
