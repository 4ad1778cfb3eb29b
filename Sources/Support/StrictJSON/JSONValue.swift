// JSON (RFC 8259) read strictly, bounded and without loss, and written compactly. It imports nothing.
//
// Who calls it: whoever parses what an untrusted caller wrote (payment tokens, requests), records and logs. What it guarantees:
// exactly one value, no repeated member name, valid UTF-8, bounded depth, time linear in the bytes; numbers keep their text.
//
// Where to start: `JSONValue(parsing:limits:)` here, `JSONWriter`. JSONParser.swift has the grammar, JSONNumber.swift the exact
// decimals by which amounts are compared.

/// One JSON value (RFC 8259), read without loss: numbers keep their text, objects their order.
///
/// Two values are equal when a byte-wise reader takes them for equal: strings and member names compare by their UTF-8
/// bytes, not by Unicode's canonical equivalence as Swift's `String` does, numbers by their text, and objects without
/// regard to the order of their members.
public enum JSONValue: Sendable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)

    /// Reads exactly one JSON text: strict UTF-8 without a byte order mark, RFC 8259's grammar and nothing beside it,
    /// white space around the value at most. A member name that occurs twice in one object is an error, in whatever
    /// spelling, and so is an unpaired surrogate.
    ///
    /// Time is linear in the number of bytes. The caller bounds that number; `limits` bounds the rest.
    ///
    /// - Throws: `JSONError` with the offset of the first byte that is wrong.
    public init(parsing bytes: [UInt8], limits: JSONLimits = .default) throws(JSONError) {
        var parser = JSONParser(bytes: bytes, limits: limits)
        self = try parser.parseText()
    }

    /// The value in compact form, as ``JSONWriter`` writes it.
    public var compact: [UInt8] {
        var writer = JSONWriter(capacity: 768)
        writer.value(self)
        return writer.bytes
    }

    /// Reads exactly one JSON text from a string's UTF-8. See `init(parsing:limits:)`.
    public init(parsing text: String, limits: JSONLimits = .default) throws(JSONError) {
        try self.init(parsing: [UInt8](text.utf8), limits: limits)
    }
}

extension JSONValue {
    /// Whether this is `null`.
    public var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// The boolean, or nil where this is something else.
    public var boolValue: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// The number, or nil where this is something else.
    public var numberValue: JSONNumber? {
        if case .number(let value) = self { value } else { nil }
    }

    /// The string, or nil where this is something else.
    public var stringValue: String? {
        if case .string(let value) = self { value } else { nil }
    }

    /// The array's elements, or nil where this is something else.
    public var arrayValue: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    /// The object, or nil where this is something else.
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

/// A JSON object: its members in the order of the text, no name twice.
public struct JSONObject: Sendable {
    /// The members in the order in which they were written.
    public let members: [(name: String, value: JSONValue)]

    /// An object of these members, or nil when a name occurs twice.
    public init?(_ members: [(name: String, value: JSONValue)]) {
        guard Self.firstRepeatedName(in: members) == nil else { return nil }
        self.members = members
    }

    /// The object without members.
    public init() {
        members = []
    }

    /// For the parser, which has looked for repetitions already.
    init(distinct members: [(name: String, value: JSONValue)]) {
        self.members = members
    }

    /// The value of the member with exactly this name, byte for byte, or nil when there is none.
    public subscript(name: String) -> JSONValue? {
        for member in members where member.name.hasSameBytes(as: name) {
            return member.value
        }
        return nil
    }

    /// The position of the first name that stood before already, or nil.
    ///
    /// Names are compared as bytes: `String`'s own equality would let the Kelvin sign pass for the letter K.
    static func firstRepeatedName(in members: [(name: String, value: JSONValue)]) -> Int? {
        // Most objects have few members: comparing each with each costs less than hashing them.
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
    /// Equal members in any order.
    public static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.members.count == right.members.count else { return false }
        let values = Dictionary(
            uniqueKeysWithValues: right.members.map { member in ([UInt8](member.name.utf8), member.value) })
        return left.members.allSatisfy { member in values[[UInt8](member.name.utf8)] == member.value }
    }
}

extension String {
    /// Names that differ mostly differ in length, which is compared first.
    fileprivate func hasSameBytes(as other: String) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }
}
