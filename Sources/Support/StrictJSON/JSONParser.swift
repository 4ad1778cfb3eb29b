/// Parses RFC 8259 from bytes by recursive descent to a limited depth.
struct JSONParser {
    let bytes: [UInt8]
    let limits: JSONLimits
    var position = 0

    init(bytes: [UInt8], limits: JSONLimits) {
        self.bytes = bytes
        self.limits = limits
    }

    /// Parses `JSON-text = ws value ws` up to the end of the bytes.
    mutating func parseText() throws(JSONError) -> JSONValue {
        skipWhiteSpace()
        let value = try parseValue(depth: 0)
        skipWhiteSpace()
        guard position == bytes.count else { throw error(.trailing) }
        return value
    }

    private mutating func parseValue(depth: Int) throws(JSONError) -> JSONValue {
        guard position < bytes.count else { throw error(.syntax) }
        switch bytes[position] {
        case UInt8(ascii: "\""):
            return .string(try parseString())
        case UInt8(ascii: "{"):
            guard depth < limits.maximumDepth else { throw error(.tooDeep) }
            return .object(try parseObject(depth: depth + 1))
        case UInt8(ascii: "["):
            guard depth < limits.maximumDepth else { throw error(.tooDeep) }
            return .array(try parseArray(depth: depth + 1))
        case UInt8(ascii: "t"):
            try parseWord("true")
            return .bool(true)
        case UInt8(ascii: "f"):
            try parseWord("false")
            return .bool(false)
        case UInt8(ascii: "n"):
            try parseWord("null")
            return .null
        default:
            guard let end = JSONNumber.end(in: bytes, from: position) else { throw error(.syntax) }
            defer { position = end }
            return .number(JSONNumber(wellFormed: String(decoding: bytes[position..<end], as: UTF8.self)))
        }
    }

    /// Parses `object = "{" [ string ":" value *( "," string ":" value ) ] "}"`.
    private mutating func parseObject(depth: Int) throws(JSONError) -> JSONObject {
        position += 1
        var members: [(name: String, value: JSONValue)] = []
        skipWhiteSpace()
        if take(UInt8(ascii: "}")) { return JSONObject() }
        repeat {
            skipWhiteSpace()
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\"") else { throw error(.syntax) }
            let name = try parseString()
            skipWhiteSpace()
            guard take(UInt8(ascii: ":")) else { throw error(.syntax) }
            skipWhiteSpace()
            do {
                members.append((name, try parseValue(depth: depth)))
            } catch {
                var fault = error
                if depth == 1 { fault.outermostMember = name }
                throw fault
            }
            skipWhiteSpace()
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { throw error(.syntax) }
        guard JSONObject.firstRepeatedName(in: members) == nil else { throw error(.duplicateMember) }
        return JSONObject(distinct: members)
    }

    /// Parses `array = "[" [ value *( "," value ) ] "]"`.
    private mutating func parseArray(depth: Int) throws(JSONError) -> [JSONValue] {
        position += 1
        var elements: [JSONValue] = []
        skipWhiteSpace()
        if take(UInt8(ascii: "]")) { return elements }
        repeat {
            skipWhiteSpace()
            elements.append(try parseValue(depth: depth))
            skipWhiteSpace()
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "]")) else { throw error(.syntax) }
        return elements
    }

    private mutating func parseWord(_ word: StaticString) throws(JSONError) {
        for byte in word.description.utf8 {
            guard take(byte) else { throw error(.syntax) }
        }
    }

    private mutating func skipWhiteSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    mutating func take(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    func error(_ kind: JSONError.Kind) -> JSONError {
        JSONError(kind: kind, offset: position)
    }
}

// Strings: RFC 8259 §7 and §8, with UTF-8 as defined in RFC 3629.
extension JSONParser {
    /// Parses the string whose opening quotation mark is at `position`.
    mutating func parseString() throws(JSONError) -> String {
        position += 1
        // Almost no string has an escape, so its bytes can be copied unchanged.
        let start = position
        try skipPlainCharacters()
        if bytes[position] == UInt8(ascii: "\"") {
            defer { position += 1 }
            return String(decoding: bytes[start..<position], as: UTF8.self)
        }
        var unescaped = Array(bytes[start..<position])
        while true {
            if take(UInt8(ascii: "\"")) { return String(decoding: unescaped, as: UTF8.self) }
            position += 1
            try parseEscape(into: &unescaped)
            let plain = position
            try skipPlainCharacters()
            unescaped.append(contentsOf: bytes[plain..<position])
        }
    }

    /// Skips to the next quotation mark or reverse solidus, which is then at `position`.
    private mutating func skipPlainCharacters() throws(JSONError) {
        while true {
            position = endOfPlainASCII()
            guard position < bytes.count else { throw error(.syntax) }
            switch bytes[position] {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): return
            case 0x00..<0x20: throw error(.syntax)
            case let leadByte: position += try multibyteLength(leadByte: leadByte)
            }
        }
    }

    /// The position of the first byte that is not a plain ASCII character. Most bytes of a payment token pass through
    /// this loop, so it does not modify the parser's state.
    private func endOfPlainASCII() -> Int {
        let span = bytes.span
        var end = position
        while end < span.count {
            let byte = span[end]
            guard 0x20..<0x80 ~= byte, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") else { break }
            end += 1
        }
        return end
    }

    /// The length of the well-formed UTF-8 sequence of two to four bytes at `position` (RFC 3629 §4):
    ///
    ///     UTF8-2 = %xC2-DF UTF8-tail
    ///     UTF8-3 = %xE0 %xA0-BF UTF8-tail / %xE1-EC 2( UTF8-tail ) / %xED %x80-9F UTF8-tail / %xEE-EF 2( UTF8-tail )
    ///     UTF8-4 = %xF0 %x90-BF 2( UTF8-tail ) / %xF1-F3 3( UTF8-tail ) / %xF4 %x80-8F 2( UTF8-tail )
    private func multibyteLength(leadByte: UInt8) throws(JSONError) -> Int {
        let (length, second): (Int, ClosedRange<UInt8>)
        switch leadByte {
        case 0xC2...0xDF: (length, second) = (2, 0x80...0xBF)
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: (length, second) = (3, 0x80...0xBF)
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: (length, second) = (4, 0x80...0xBF)
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: throw error(.notUTF8)
        }
        guard position + length <= bytes.count, second.contains(bytes[position + 1]) else { throw error(.notUTF8) }
        for tail in 2..<max(length, 2) where bytes[position + tail] & 0xC0 != 0x80 {
            throw error(.notUTF8)
        }
        return length
    }

    /// Parses the characters after a reverse solidus.
    private mutating func parseEscape(into unescaped: inout [UInt8]) throws(JSONError) {
        guard position < bytes.count else { throw error(.syntax) }
        switch bytes[position] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(bytes[position])
        case UInt8(ascii: "b"): unescaped.append(0x08)
        case UInt8(ascii: "f"): unescaped.append(0x0C)
        case UInt8(ascii: "n"): unescaped.append(0x0A)
        case UInt8(ascii: "r"): unescaped.append(0x0D)
        case UInt8(ascii: "t"): unescaped.append(0x09)
        case UInt8(ascii: "u"):
            position += 1
            unescaped.append(contentsOf: String(Character(try parseCodePoint())).utf8)
            return
        default: throw error(.syntax)
        }
        position += 1
    }

    /// Parses the four digits of a `\u` escape, and the second escape of a surrogate pair (RFC 8259 §7).
    private mutating func parseCodePoint() throws(JSONError) -> Unicode.Scalar {
        let first = try parseFourHexDigits()
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard first < 0xDC00, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw error(.syntax) }
        let second = try parseFourHexDigits()
        guard (0xDC00...0xDFFF).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (UInt32(first - 0xD800) << 10) + UInt32(second - 0xDC00))
        else { throw error(.syntax) }
        return scalar
    }

    private mutating func parseFourHexDigits() throws(JSONError) -> UInt16 {
        var value: UInt16 = 0
        for _ in 0..<4 {
            guard position < bytes.count else { throw error(.syntax) }
            let digit: UInt8
            switch bytes[position] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = bytes[position] - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = bytes[position] - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = bytes[position] - UInt8(ascii: "A") + 10
            default: throw error(.syntax)
            }
            value = value << 4 | UInt16(digit)
            position += 1
        }
        return value
    }
}
