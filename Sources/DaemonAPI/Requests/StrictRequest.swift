import Refusals
import StrictJSON

/// A request's envelope, read strictly: one JSON object, no member twice, none that is not known.
struct RequestBody {
    let members: JSONObject

    init(parsing body: [UInt8], known: Set<String>) throws(Refusal) {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: body)
        } catch {
            // A name that is repeated inside the token makes the token malformed, not its envelope.
            let isTokens = error.kind == .duplicateMember && error.outermostMember == "token"
            throw Refusal(
                isTokens ? .malformedToken : .malformedRequest, "The body is not strict JSON.", details: "\(error)")
        }
        guard let members = value.objectValue else {
            throw Refusal(.malformedRequest, "The body is not a JSON object.")
        }
        // An unknown name is not repeated: it may be anything, a mistyped account number too.
        guard members.members.allSatisfy({ known.contains($0.name) }) else {
            throw Refusal(
                .malformedRequest, "The body has a member that is not known here.",
                details: "known are: \(known.sorted().joined(separator: ", "))")
        }
        self.members = members
    }

    init(_ value: JSONValue, named name: String, known: Set<String>) throws(Refusal) {
        guard let members = value.objectValue, members.members.allSatisfy({ known.contains($0.name) }) else {
            throw Refusal(
                .malformedRequest, "\(name) is not an object of the known members.",
                details: "known are: \(known.sorted().joined(separator: ", "))")
        }
        self.members = members
    }

    func string(_ name: String) throws(Refusal) -> String? {
        guard let value = members[name] else { return nil }
        guard let text = value.stringValue else { throw Self.wrongType(name, "a string") }
        return text
    }

    func requiredString(_ name: String) throws(Refusal) -> String {
        guard let text = try string(name) else { throw Self.missing(name) }
        return text
    }

    func bool(_ name: String) throws(Refusal) -> Bool? {
        guard let value = members[name] else { return nil }
        guard let flag = value.boolValue else { throw Self.wrongType(name, "true or false") }
        return flag
    }

    func object(_ name: String) throws(Refusal) -> JSONObject? {
        guard let value = members[name] else { return nil }
        guard let object = value.objectValue else { throw Self.wrongType(name, "an object") }
        return object
    }

    func required(_ name: String) throws(Refusal) -> JSONValue {
        guard let value = members[name] else { throw Self.missing(name) }
        return value
    }

    static func missing(_ name: String) -> Refusal {
        Refusal(.malformedRequest, "The body has no member \(name).", details: name)
    }

    static func wrongType(_ name: String, _ type: String) -> Refusal {
        Refusal(.malformedRequest, "\(name) is not \(type).", details: name)
    }
}
