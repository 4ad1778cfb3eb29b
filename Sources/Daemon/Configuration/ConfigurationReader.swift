import Yams

/// What reading one configuration file has in common: where relative paths start, and the problems found so far.
final class ConfigurationReader {
    let file: String
    let environment: [String: String]
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [ConfigurationWarning] = []

    init(file: String, environment: [String: String]) {
        self.file = file
        self.environment = environment
    }

    func problem(_ key: String, line: Int?, _ message: String) {
        problems.append(ConfigurationProblem(file: file, line: line, key: key, message: message))
    }

    func warning(_ setting: ConfigurationWarning.Setting, _ key: String, line: Int?, _ message: String) {
        let place = (line.map { "\(file):\($0): " } ?? "\(file): ") + key
        warnings.append(ConfigurationWarning(setting: setting, place: place, message: message))
    }

    /// Relative paths are relative to the file.
    func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        let directory = file.lastIndex(of: "/").map { String(file[...$0]) } ?? ""
        return directory + (path.hasPrefix("./") ? String(path.dropFirst(2)) : path)
    }

    /// The problems in the order of the file; those without a line first.
    var sortedProblems: [ConfigurationProblem] {
        problems.enumerated().sorted { ($0.element.line ?? 0, $0.offset) < ($1.element.line ?? 0, $1.offset) }
            .map(\.element)
    }
}

/// One thing wrong with the configuration.
struct ConfigurationProblem: Sendable, Equatable, CustomStringConvertible {
    let file: String
    /// From 1; nil for what concerns the file as a whole.
    let line: Int?
    /// `listener.mode`, `tokens[0].uri`; empty for the file as a whole.
    let key: String
    /// What is wrong and what to do, as one sentence or two without a full stop at the end.
    let message: String

    /// `FILE:LINE: KEY: what is wrong; what to do`
    var description: String {
        (line.map { "\(file):\($0): " } ?? "\(file): ") + (key.isEmpty ? "" : "\(key): ") + message
    }
}

/// Every problem of one configuration, in the order of the file. Never empty.
struct ConfigurationProblems: Error, CustomStringConvertible {
    let problems: [ConfigurationProblem]

    var description: String { problems.map(\.description).joined(separator: "\n") }
}

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
