/// Reads RFC 8259 from bytes by recursive descent; the depth is bounded by `limits`.
struct JSONParser {
    let bytes: [UInt8]
    let limits: JSONLimits
    var position = 0

    init(bytes: [UInt8], limits: JSONLimits) {
        self.bytes = bytes
        self.limits = limits
    }

    /// `JSON-text = ws value ws`, and the end of the bytes.
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

    /// `object = "{" [ string ":" value *( "," string ":" value ) ] "}"`
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

    /// `array = "[" [ value *( "," value ) ] "]"`
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
