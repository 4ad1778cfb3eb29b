import Encodings
package import Yams

/// A value in the file with its position.
package struct Located<Value> {
    package let value: Value
    /// The path of the key, such as `tokens[0].uri`.
    package let key: String
    package let line: Int?

    package init(value: Value, key: String, line: Int?) {
        self.value = value
        self.key = key
        self.line = line
    }
}

/// A mapping of the file with a closed set of keys. Reading a value reports its problems and continues with the
/// default, so that one run finds all problems.
package struct ConfigurationSection {
    package let reader: ConfigurationReader
    /// The path of the section; empty for the root.
    package let path: String
    package let line: Int?
    private var members: [String: Node] = [:]

    /// - Parameter node: nil or an empty value means an empty section.
    package init(_ node: Node?, path: String, keys: [String], reader: ConfigurationReader) {
        self.reader = reader
        self.path = path
        line = node?.mark?.line
        guard let node, !node.isEmptyValue else { return }
        guard case .mapping(let mapping) = node else {
            reader.problem(path, line: line, "must be a section with the keys \(keys.joined(separator: ", "))")
            return
        }
        for (keyNode, value) in mapping {
            let key = keyNode.scalar?.string ?? ""
            guard keys.contains(key) else {
                let printable = key.isEmpty ? "?" : ConfigurationText.shown(key)
                let suggestion = NearestName.suggestion(for: key, among: keys).map { "; did you mean \($0)?" }
                reader.problem(
                    Self.join(path, printable), line: keyNode.mark?.line,
                    "unknown key" + (suggestion ?? "; known here: \(keys.joined(separator: ", "))"))
                continue
            }
            members[key] = value
        }
    }

    package func key(_ name: String) -> String { Self.join(path, name) }

    /// The node of a key that is present and not empty.
    package func node(_ name: String) -> Node? {
        members[name].flatMap { $0.isEmptyValue ? nil : $0 }
    }

    /// Returns true if the key is present without a value.
    package func isEmpty(_ name: String) -> Bool {
        members[name]?.isEmptyValue ?? false
    }

    package func section(_ name: String, keys: [String]) -> ConfigurationSection {
        ConfigurationSection(members[name], path: key(name), keys: keys, reader: reader)
    }

    package func problem(_ name: String, _ message: String) {
        reader.problem(key(name), line: members[name]?.mark?.line ?? line, message)
    }

    package func warning(_ setting: ConfigurationWarning.Setting, _ name: String, _ message: String) {
        reader.warning(setting, key(name), line: members[name]?.mark?.line ?? line, message)
    }

    /// The elements of a list with their positions; nil if the key is absent, or after a reported problem.
    package func list(_ name: String) -> [Located<Node>]? {
        guard let node = node(name) else { return nil }
        guard case .sequence(let sequence) = node else {
            problem(name, "must be a list, as in [a, b]")
            return nil
        }
        return sequence.enumerated().map { index, element in
            Located(value: element, key: "\(key(name))[\(index)]", line: element.mark?.line)
        }
    }

    /// A list of texts.
    package func texts(_ name: String) -> [Located<String>]? {
        list(name)?.compactMap { element in
            guard let text = element.value.scalar?.string, !text.isEmpty, ConfigurationText.isPlain(text) else {
                reader.problem(element.key, line: element.line, "must be text, not empty and on one line")
                return nil
            }
            return Located(value: text, key: element.key, line: element.line)
        }
    }

    /// A list whose elements come from a closed set. Other elements are reported and omitted.
    package func choices(_ name: String, among known: [String]) -> [Located<String>] {
        (texts(name) ?? []).filter { element in
            guard !known.contains(element.value) else { return true }
            let suggestion = NearestName.suggestion(for: element.value, among: known).map { "; did you mean \($0)?" }
            reader.problem(
                element.key, line: element.line,
                "“\(ConfigurationText.shown(element.value))” is not known"
                    + (suggestion ?? "; it must be one of \(known.joined(separator: ", "))"))
            return false
        }
    }

    /// The text of a scalar of any type, as written.
    package func written(_ name: String) -> String? {
        guard let node = node(name) else { return nil }
        guard let text = node.scalar?.string, ConfigurationText.isPlain(text) else {
            problem(name, "must be a single value on one line")
            return nil
        }
        return text
    }

    /// The text of a string. A text that YAML reads as a number or a boolean must be quoted.
    package func text(_ name: String) -> String? {
        guard let text = written(name) else { return nil }
        guard node(name)?.typeName == "str" else {
            problem(name, "must be text; put it in quotes")
            return nil
        }
        return text
    }

    private static func join(_ path: String, _ name: String) -> String {
        path.isEmpty ? name : "\(path).\(name)"
    }
}

extension Node {
    /// True for `key:` without a value.
    package var isEmptyValue: Bool {
        scalar.map { $0.style == .plain && typeName == "null" } ?? false
    }

    /// `str`, `int`, `bool`, `null`, `float`, `map` or `seq`; the whole name for tags that YAML does not define.
    package var typeName: String {
        let prefix = "tag:yaml.org,2002:"
        let name = tag.description
        return name.hasPrefix(prefix) ? String(name.dropFirst(prefix.count)) : name
    }
}
