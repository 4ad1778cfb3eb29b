import Foundation
import StrictJSON

/// The part of JSON Schema 2020-12 that the OpenAPI file uses. A keyword that is not known here is a failure and not
/// passed over: a constraint that nobody checks is none.
struct JSONSchema {
    /// The document that `$ref` points into.
    let document: JSONValue

    /// Where and how `value` breaks `schema`; empty when it holds.
    func violations(of value: JSONValue, by schema: JSONValue, at path: String = "$") -> [String] {
        if case .bool(let allows) = schema { return allows ? [] : ["\(path): nothing is allowed here"] }
        guard let keywords = schema.objectValue else { return ["\(path): the schema is neither object nor Boolean"] }
        return keywords.members.flatMap { name, constraint in
            violations(of: value, by: name, constraint, in: keywords, at: path)
        }
    }

    private static let annotations: Set<String> = [
        "description", "examples", "example", "default", "format", "title", "$comment", "contentEncoding", "deprecated",
    ]

    private func violations(
        of value: JSONValue, by keyword: String, _ constraint: JSONValue, in schema: JSONObject, at path: String
    ) -> [String] {
        func holds(_ condition: Bool) -> [String] {
            condition ? [] : ["\(path): breaks \(keyword) \(constraint)"]
        }
        func count(_ schema: JSONValue) -> Int { violations(of: value, by: schema, at: path).isEmpty ? 1 : 0 }
        let schemas = constraint.arrayValue ?? []
        switch keyword {
        case _ where Self.annotations.contains(keyword): return []
        case "$ref":
            guard let target = constraint.stringValue.flatMap(resolve) else {
                return ["\(path): \(constraint) leads nowhere"]
            }
            return violations(of: value, by: target, at: path)
        case "type":
            let types = constraint.arrayValue ?? [constraint]
            return holds(types.compactMap(\.stringValue).contains { isOf($0, value) })
        case "enum": return holds(schemas.contains(value))
        case "const": return holds(constraint == value)
        case "allOf": return schemas.flatMap { violations(of: value, by: $0, at: path) }
        case "anyOf": return holds(schemas.contains { count($0) == 1 })
        case "oneOf": return holds(schemas.map(count).reduce(0, +) == 1)
        case "not": return holds(count(constraint) == 0)
        case "properties":
            return (constraint.objectValue?.members ?? []).flatMap { name, schema in
                value.objectValue?[name].map { violations(of: $0, by: schema, at: "\(path).\(name)") } ?? []
            }
        case "required":
            guard let object = value.objectValue else { return [] }
            return schemas.compactMap(\.stringValue).filter { object[$0] == nil }.map { "\(path): lacks \($0)" }
        case "additionalProperties":
            let known = Set((schema["properties"]?.objectValue?.members ?? []).map(\.name))
            return (value.objectValue?.members ?? []).filter { !known.contains($0.name) }.flatMap {
                violations(of: $0.value, by: constraint, at: "\(path).\($0.name)")
            }
        case "items":
            return (value.arrayValue ?? []).enumerated().flatMap {
                violations(of: $0.element, by: constraint, at: "\(path)[\($0.offset)]")
            }
        case "minItems": return holds((value.arrayValue?.count ?? .max) >= constraint.numberValue?.int ?? 0)
        case "maxItems": return holds((value.arrayValue?.count ?? 0) <= constraint.numberValue?.int ?? .max)
        case "uniqueItems":
            let items = value.arrayValue ?? []
            return holds(items.indices.allSatisfy { index in !items[..<index].contains(items[index]) })
        case "minLength":
            return holds((value.stringValue?.unicodeScalars.count ?? .max) >= constraint.numberValue?.int ?? 0)
        case "maxLength":
            return holds((value.stringValue?.unicodeScalars.count ?? 0) <= constraint.numberValue?.int ?? .max)
        case "minimum": return holds((value.numberValue?.int ?? .max) >= constraint.numberValue?.int ?? 0)
        case "pattern":
            guard let text = value.stringValue else { return [] }
            guard let pattern = constraint.stringValue, let regex = try? Regex(pattern) else { return holds(false) }
            return holds(text.firstMatch(of: regex) != nil)
        default: return ["\(path): the keyword \(keyword) is not known to this test"]
        }
    }

    /// The value at `#/a/b/c`.
    func resolve(_ reference: String) -> JSONValue? {
        guard reference.hasPrefix("#/") else { return nil }
        return reference.dropFirst(2).split(separator: "/").reduce(Optional(document)) { value, name in
            let unescaped = name.replacing("~1", with: "/").replacing("~0", with: "~")
            return value?.objectValue?[String(unescaped)]
        }
    }

    private func isOf(_ type: String, _ value: JSONValue) -> Bool {
        switch type {
        case "null": value.isNull
        case "boolean": value.boolValue != nil
        case "string": value.stringValue != nil
        case "number": value.numberValue != nil
        case "integer": value.numberValue?.int != nil
        case "array": value.arrayValue != nil
        case "object": value.objectValue != nil
        default: false
        }
    }
}
