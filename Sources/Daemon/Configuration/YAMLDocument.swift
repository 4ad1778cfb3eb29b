import Yams

/// One YAML 1.1 document as a tree of nodes that know their lines, without anchors, aliases and tags of its own.
enum YAMLDocument {
    /// Far more than any configuration needs.
    static let maximumBytes = 256 * 1024

    /// The root node; nil for an empty document, and for one whose problem was reported to `reader`.
    static func root(of text: String, reader: ConfigurationReader) -> Node? {
        do {
            // A node knows its anchor only as long as its parser lives.
            let parser = try Parser(yaml: text, encoding: .utf8)
            guard let root = try parser.singleRoot() else { return nil }
            // An alias is a copy of its anchor's node here, and aliases of aliases grow exponentially: the tree is not
            // walked below an anchor.
            if let line = withExtendedLifetime(parser, { firstAnchor(in: root) }) {
                reader.problem("", line: line, "anchors and aliases (& and *) are not taken; write the value out")
                return nil
            }
            return root
        } catch let error as YamlError {
            report(error, to: reader)
        } catch {
            reader.problem("", line: nil, "is not YAML: \(error)")
        }
        return nil
    }

    private static func firstAnchor(in node: Node) -> Int? {
        if node.anchor != nil { return node.mark?.line ?? 1 }
        switch node {
        case .scalar: return nil
        case .alias: return node.mark?.line ?? 1
        case .sequence(let sequence): return sequence.lazy.compactMap(firstAnchor).first
        case .mapping(let mapping):
            return mapping.lazy.compactMap { firstAnchor(in: $0.key) ?? firstAnchor(in: $0.value) }.first
        }
    }

    private static func report(_ error: YamlError, to reader: ConfigurationReader) {
        switch error {
        case .scanner(_, let problem, let mark, _), .parser(_, let problem, let mark, _),
            .composer(_, let problem, let mark, _):
            reader.problem("", line: mark.line, "is not YAML: \(problem)")
        case .duplicatedKeysInMapping(let duplicates, let context):
            reader.problem(
                duplicates.first ?? "", line: context.mark.line,
                "duplicate key: it is here and again further down in the same section; keep one of them")
        case .reader(let problem, _, _, _): reader.problem("", line: nil, "is not YAML: \(problem)")
        default: reader.problem("", line: nil, "is not YAML")
        }
    }
}
