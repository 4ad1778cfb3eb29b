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
        for member in members where member.name.utf8.elementsEqual(name.utf8) {
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
                for earlier in 0..<later
                where members[earlier].name.utf8.elementsEqual(members[later].name.utf8) {
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
