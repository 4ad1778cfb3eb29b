import StrictJSON

/// A JSON document as names and values for display: `chain[0].subject`.
enum Flattening {
    static func pairs(_ value: JSONValue, name: String = "") -> [(String, String)] {
        switch value {
        case .object(let object) where !object.members.isEmpty:
            return object.members.flatMap { member in
                pairs(member.value, name: name.isEmpty ? member.name : "\(name).\(member.name)")
            }
        case .array(let elements):
            let words = elements.compactMap(scalar)
            if words.count == elements.count { return [(name, words.isEmpty ? "-" : words.joined(separator: ", "))] }
            return elements.enumerated().flatMap { index, element in pairs(element, name: "\(name)[\(index)]") }
        default: return [(name, scalar(value) ?? "-")]
        }
    }

    private static func scalar(_ value: JSONValue) -> String? {
        switch value {
        case .null: "-"
        case .bool(let value): value ? "yes" : "no"
        case .number(let number): number.text
        case .string(let text): text
        case .array, .object: nil
        }
    }
}
