internal import Refusals
internal import StrictJSON

/// One of a token's dictionaries while it is read, with its place in the token for what is said about it.
struct TokenMembers {
    let path: String
    private let object: JSONObject

    init(_ value: JSONValue, path: String) throws(Refusal) {
        guard let object = value.objectValue else { throw .malformedToken("\(path) is not an object") }
        (self.object, self.path) = (object, path)
    }

    func has(_ name: String) -> Bool {
        object[name] != nil
    }

    func members(_ name: String) throws(Refusal) -> TokenMembers {
        guard let value = object[name] else { throw .malformedToken("\(path).\(name) is missing") }
        return try TokenMembers(value, path: "\(path).\(name)")
    }

    func string(_ name: String) throws(Refusal) -> String {
        guard let value = object[name] else { throw .malformedToken("\(path).\(name) is missing") }
        guard let text = value.stringValue else { throw .malformedToken("\(path).\(name) is not a string") }
        return text
    }

    /// A string member, decoded; `form` says what it should have been when `decode` gives nil.
    func read<Value>(_ name: String, _ form: String, decode: (String) -> Value?) throws(Refusal) -> Value {
        guard let value = decode(try string(name)) else {
            throw .malformedToken("\(path).\(name) is not \(form)")
        }
        return value
    }
}
