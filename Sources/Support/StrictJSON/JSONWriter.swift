/// Writes compact JSON into a byte buffer, for responses and log lines on the hot path.
///
/// The calls follow the order of the text. The writer adds commas and escapes:
///
///     JSONWriter.object { $0.member("code", "forbidden") }   // {"code":"forbidden"}
///
/// The caller must match every `begin` with an `end`, and write a value after every name.
public struct JSONWriter: Sendable {
    /// The bytes written so far, UTF-8.
    public private(set) var bytes: [UInt8] = []
    /// True if the next name or value needs a comma before it.
    private var needsComma = false

    /// - Parameter capacity: the number of bytes to reserve.
    public init(capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
    }

    public mutating func beginObject() {
        separate()
        bytes.append(UInt8(ascii: "{"))
        needsComma = false
    }

    public mutating func endObject() {
        bytes.append(UInt8(ascii: "}"))
        needsComma = true
    }

    public mutating func beginArray() {
        separate()
        bytes.append(UInt8(ascii: "["))
        needsComma = false
    }

    public mutating func endArray() {
        bytes.append(UInt8(ascii: "]"))
        needsComma = true
    }

    /// Writes a member's name; its value must follow.
    public mutating func member(_ name: String) {
        separate()
        appendQuoted(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a member with a string, or nothing for nil.
    public mutating func member(_ name: String, _ value: String?) {
        guard let value else { return }
        member(name)
        string(value)
    }

    /// Writes a member with an integer, or nothing for nil.
    public mutating func member(_ name: String, _ value: Int?) {
        guard let value else { return }
        member(name)
        number(value)
    }

    /// Writes a member with a boolean, or nothing for nil.
    public mutating func member(_ name: String, _ value: Bool?) {
        guard let value else { return }
        member(name)
        bool(value)
    }

    /// Writes a member with an array of strings, or nothing for nil.
    public mutating func member(_ name: String, _ values: [String]?) {
        guard let values else { return }
        member(name)
        beginArray()
        for value in values { string(value) }
        endArray()
    }

    /// Writes a member with an object, whose members `body` writes.
    public mutating func member(_ name: String, object body: (inout JSONWriter) -> Void) {
        member(name)
        object(body)
    }

    /// Writes a member with an array of objects, one for each element, whose members `body` writes.
    public mutating func member<Element>(
        _ name: String, objects elements: some Sequence<Element>, _ body: (Element, inout JSONWriter) -> Void
    ) {
        member(name)
        beginArray()
        for element in elements { object { body(element, &$0) } }
        endArray()
    }

    /// Writes an object, whose members `body` writes.
    public mutating func object(_ body: (inout JSONWriter) -> Void) {
        beginObject()
        body(&self)
        endObject()
    }

    /// The bytes of an object, whose members `body` writes.
    public static func object(capacity: Int = 256, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: capacity)
        writer.object(body)
        return writer.bytes
    }

    public mutating func string(_ value: String) {
        separate()
        appendQuoted(value)
        needsComma = true
    }

    public mutating func number(_ value: Int) {
        rawText(String(value))
    }

    /// Writes a finite number in the shortest form that parses to the same value. JSON has no other numbers, so
    /// infinities and NaN become `null`.
    public mutating func number(_ value: Double) {
        rawText(value.isFinite ? value.description : "null")
    }

    public mutating func number(_ value: JSONNumber) {
        rawText(value.text)
    }

    public mutating func bool(_ value: Bool) {
        rawText(value ? "true" : "false")
    }

    public mutating func null() {
        rawText("null")
    }

    /// Copies bytes that are already one JSON value.
    public mutating func rawValue(_ value: [UInt8]) {
        separate()
        bytes.append(contentsOf: value)
        needsComma = true
    }

    /// Writes a value that was parsed or built earlier.
    public mutating func value(_ value: JSONValue) {
        switch value {
        case .null: null()
        case .bool(let value): bool(value)
        case .number(let value): number(value)
        case .string(let value): string(value)
        case .array(let elements):
            beginArray()
            for element in elements { self.value(element) }
            endArray()
        case .object(let object):
            beginObject()
            for (name, value) in object.members {
                member(name)
                self.value(value)
            }
            endObject()
        }
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
    }

    private mutating func rawText(_ text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
        needsComma = true
    }

    private mutating func appendQuoted(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        defer { bytes.append(UInt8(ascii: "\"")) }
        // Nearly every text needs no escapes. A record has dozens, so this loop reads the bytes directly.
        let characters = text.utf8.span
        var plain = 0
        while plain < characters.count, Self.isPlain(characters[plain]) { plain += 1 }
        if plain == characters.count { return bytes.append(contentsOf: text.utf8) }
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0x0A: bytes.append(contentsOf: "\\n".utf8)
            case 0x0D: bytes.append(contentsOf: "\\r".utf8)
            case 0x09: bytes.append(contentsOf: "\\t".utf8)
            // DEL is allowed in JSON, but must not reach a terminal.
            case 0x00..<0x20, 0x7F:
                bytes.append(contentsOf: "\\u00".utf8)
                bytes.append(Self.hexDigits[Int(byte >> 4)])
                bytes.append(Self.hexDigits[Int(byte & 0x0F)])
            default: bytes.append(byte)
            }
        }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\") && byte != 0x7F
    }

    private static let hexDigits = [UInt8]("0123456789abcdef".utf8)
}
