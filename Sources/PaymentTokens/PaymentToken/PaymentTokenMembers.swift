package import Refusals
package import StrictJSON

/// One dictionary of a payment token during parsing, with its path for messages. Both wallets' formats are read with it.
package struct PaymentTokenMembers {
    package let path: String
    /// The company that specifies the format, for messages.
    private let specifier: String
    private let object: JSONObject

    package init(_ value: JSONValue, path: String, specifiedBy specifier: String) throws(Refusal) {
        guard let object = value.objectValue else {
            throw .malformedToken("\(path) is not an object", specifiedBy: specifier)
        }
        (self.object, self.path, self.specifier) = (object, path, specifier)
    }

    /// Refuses members with other names. The refusal does not repeat such a name, which may be anything.
    package func requireOnly(_ names: Set<String>) throws(Refusal) {
        guard object.members.allSatisfy({ names.contains($0.name) }) else {
            throw malformed("\(path) has a member other than \(names.sorted().joined(separator: ", "))")
        }
    }

    package func has(_ name: String) -> Bool {
        object[name] != nil
    }

    package func value(_ name: String) throws(Refusal) -> JSONValue {
        guard let value = object[name] else { throw malformed("\(path).\(name) is missing") }
        return value
    }

    package func members(_ name: String) throws(Refusal) -> PaymentTokenMembers {
        try PaymentTokenMembers(value(name), path: "\(path).\(name)", specifiedBy: specifier)
    }

    package func string(_ name: String) throws(Refusal) -> String {
        guard let text = try value(name).stringValue else { throw malformed("\(path).\(name) is not a string") }
        return text
    }

    /// Reads a string member and decodes it. If `decode` returns nil, the refusal names the required form, `form`.
    package func read<Value>(_ name: String, _ form: String, decode: (String) -> Value?) throws(Refusal) -> Value {
        guard let value = decode(try string(name)) else { throw malformed("\(path).\(name) is not \(form)") }
        return value
    }

    private func malformed(_ details: String) -> Refusal { .malformedToken(details, specifiedBy: specifier) }
}

extension Refusal {
    /// - Parameter details: the member's path and the fault, never its value.
    package static func malformedToken(_ details: String, specifiedBy specifier: String) -> Refusal {
        Refusal(
            .malformedToken,
            "The payment token does not have the form that \(specifier) specifies; send it as it was received.",
            details: details)
    }
}
