import Encodings
import Foundation
public import Refusals
import StrictJSON

/// The body of a request. Its `CodingKeys` are the only list of its members, for `paytokenctl`, which writes them with
/// ``JSONCoding``, and for the daemon, which reads them.
///
/// The daemon's decoding is stricter than JSONDecoder. It rejects duplicate and unknown members, null for an absent member,
/// times in any format but RFC 3339, and arrays that do not have 1 to ``maximumElements`` elements.
public protocol StrictRequest: Codable, Sendable, Equatable {
    associatedtype CodingKeys: CodingKey & CaseIterable

    /// The maximum number of elements of an array; by default 16.
    static var maximumElements: Int { get }

    /// Checks requirements that the members' types cannot express: lengths, and names that must not occur twice.
    func validate() throws(Refusal)
}

extension StrictRequest {
    public static var maximumElements: Int { 16 }

    public func validate() throws(Refusal) {}

    /// Parses a body in the daemon, and validates it.
    ///
    /// - Throws: `malformed_request`.
    public init(parsing body: [UInt8]) throws(Refusal) {
        let decoder = StrictDecoder(
            value: try RequestMembers.json(body), name: nil, maximumElements: Self.maximumElements)
        do {
            // A type without members never asks for a container. This call rejects unknown members for it too.
            _ = try decoder.container(keyedBy: CodingKeys.self)
            try self.init(from: decoder)
        } catch let refusal as Refusal {
            throw refusal
        } catch {
            throw Refusal(.malformedRequest, "The body does not have the form of this request.")
        }
        try validate()
    }

    /// Checks the length of a reason: the record has room for 200 characters.
    public func validate(reason: String) throws(Refusal) {
        guard (1...200).contains(reason.unicodeScalars.count) else {
            throw Refusal(.malformedRequest, "reason must have 1 to 200 characters.", details: "reason")
        }
    }
}

/// The members of a JSON object in a request; an object with an unknown member is rejected. Requests that are frequent
/// (decrypt, verify) use this type directly, without Codable.
struct RequestMembers {
    let object: JSONObject

    static func json(_ body: [UInt8]) throws(Refusal) -> JSONValue {
        do {
            return try JSONValue(parsing: body)
        } catch {
            // A name that occurs twice inside `token` is a fault of the payment token, not of the request around it.
            let isPaymentToken = error.kind == .duplicateMember && error.outermostMember == "token"
            throw Refusal(
                isPaymentToken ? .malformedToken : .malformedRequest, "The body is not strict JSON.",
                details: "\(error)")
        }
    }

    init(parsing body: [UInt8], known: Set<String>) throws(Refusal) {
        try self.init(Self.json(body), name: nil, known: known)
    }

    /// - Parameter name: the name of the member whose value this is; nil for the body itself.
    init(_ value: JSONValue, name: String?, known: Set<String>) throws(Refusal) {
        let object = value.objectValue
        if name == nil, object == nil { throw Refusal(.malformedRequest, "The body is not a JSON object.") }
        // The refusal does not repeat the unknown name, which may be anything, even a mistyped account number.
        guard let object, object.members.allSatisfy({ known.contains($0.name) }) else {
            throw Refusal(
                .malformedRequest,
                name.map { "\($0) is not an object of the known members." }
                    ?? "The body has an unknown member.",
                details: "known are: \(known.sorted().joined(separator: ", "))")
        }
        self.object = object
    }

    func required(_ name: String) throws(Refusal) -> JSONValue {
        guard let value = object[name] else {
            throw Refusal(.malformedRequest, "The body has no member \(name).", details: name)
        }
        return value
    }

    func string(_ name: String) throws(Refusal) -> String? {
        guard let value = object[name] else { return nil }
        guard let text = value.stringValue else { throw Self.wrongType(name, "a string") }
        return text
    }

    /// Returns an array of strings; nil if the member is absent.
    ///
    /// - Parameter form: a description of the strings that `suits` accepts, for the refusal.
    func strings(
        _ name: String, _ count: ClosedRange<Int>, _ form: String, _ suits: (String) -> Bool
    ) throws(Refusal) -> [String]? {
        guard let value = object[name] else { return nil }
        let texts = value.arrayValue?.compactMap(\.stringValue).filter(suits)
        guard let texts, texts.count == value.arrayValue?.count, count.contains(texts.count) else {
            throw Self.wrongType(name, "an array of \(count.lowerBound) to \(count.upperBound) texts of \(form)")
        }
        return texts
    }

    static func wrongType(_ name: String, _ type: String) -> Refusal {
        Refusal(.malformedRequest, "\(name) is not \(type).", details: name)
    }
}

/// Decodes a ``StrictRequest``. Every error that it throws is a ``Refusal``.
private struct StrictDecoder: Decoder {
    let value: JSONValue
    /// The member's name, which refusals mention; nil for the body itself.
    let name: String?
    let maximumElements: Int
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard let keys = type as? any (CodingKey & CaseIterable).Type else {
            // The request's type is defective: without a list of its members, the decoder could not reject unknown ones.
            throw Refusal(.internalError, "The daemon cannot read this request; please report it.")
        }
        func names<Keys: CodingKey & CaseIterable>(_ keys: Keys.Type) -> Set<String> {
            Set(keys.allCases.map(\.stringValue))
        }
        return KeyedDecodingContainer(
            KeyedMembers<Key>(
                members: try RequestMembers(value, name: name, known: names(keys)), maximumElements: maximumElements))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard let elements = value.arrayValue, (1...maximumElements).contains(elements.count) else {
            throw wrongType("an array of 1 to \(maximumElements) objects")
        }
        return Elements(elements: elements, name: "\(name ?? "The body")[]", maximumElements: maximumElements)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    func read<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard type == Date.self else { return try Value(from: self) }
        guard let time = RFC3339.date(try decode(String.self)) as? Value else { throw wrongType("an RFC 3339 time") }
        return time
    }

    private func wrongType(_ type: String) -> Refusal { RequestMembers.wrongType(name ?? "The body", type) }
}

extension StrictDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value.isNull }

    func decode(_ type: String.Type) throws -> String {
        guard let text = value.stringValue else { throw wrongType("a string") }
        return text
    }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard let flag = value.boolValue else { throw wrongType("true or false") }
        return flag
    }

    func decode(_ type: Int.Type) throws -> Int {
        guard let number = value.numberValue?.int else { throw wrongType("an integer") }
        return number
    }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        // The request's type is defective: it has a member of a kind for which this decoder defines no bounds.
        throw Refusal(.internalError, "The daemon cannot read this request; please report it.")
    }
}

private struct KeyedMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: RequestMembers
    let maximumElements: Int
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { members.object.members.compactMap { Key(stringValue: $0.name) } }

    func contains(_ key: Key) -> Bool { members.object[key.stringValue] != nil }

    /// Returns false, since null must not count as an absent member. A type that accepts null, such as
    /// ``RotationFinishRequest/CutOff``, decodes null itself.
    func decodeNil(forKey key: Key) -> Bool { false }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try decoder(key).read(type)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try decoder(key).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try decoder(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { decoder(.object(members.object), nil) }
    func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }

    private func decoder(_ key: Key) throws -> StrictDecoder {
        decoder(try members.required(key.stringValue), key.stringValue)
    }

    private func decoder(_ value: JSONValue, _ name: String?) -> StrictDecoder {
        StrictDecoder(value: value, name: name, maximumElements: maximumElements)
    }
}

private struct Elements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let name: String
    let maximumElements: Int
    private(set) var currentIndex = 0
    var codingPath: [any CodingKey] { [] }
    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex == elements.count }

    init(elements: [JSONValue], name: String, maximumElements: Int) {
        self.elements = elements
        self.name = name
        self.maximumElements = maximumElements
    }

    mutating func decodeNil() -> Bool { false }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try next().read(type) }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { try next().unkeyedContainer() }

    mutating func superDecoder() throws -> any Decoder { next() }

    private mutating func next() -> StrictDecoder {
        defer { currentIndex += 1 }
        return StrictDecoder(value: elements[currentIndex], name: name, maximumElements: maximumElements)
    }
}
