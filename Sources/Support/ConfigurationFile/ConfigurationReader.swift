import Foundation
import HostSystem
package import Yams

/// The shared state while one configuration file is read: the base of relative paths, and the problems found so far.
package final class ConfigurationReader {
    package let file: String
    package let environment: [String: String]
    /// True for `--check`, which also examines the locations of sockets and databases. At startup, each location is
    /// examined when it is opened, and a reload must not touch open ones.
    package let examinesPlaces: Bool
    package private(set) var problems: [ConfigurationProblem] = []
    package private(set) var warnings: [ConfigurationWarning] = []

    package init(file: String, environment: [String: String], examinesPlaces: Bool = false) {
        self.file = file
        self.environment = environment
        self.examinesPlaces = examinesPlaces
    }

    package func problem(_ key: String, line: Int?, _ message: String) {
        problems.append(ConfigurationProblem(file: file, line: line, key: key, message: message))
    }

    package func warning(_ setting: ConfigurationWarning.Setting, _ key: String, line: Int?, _ message: String) {
        let place = (line.map { "\(file):\($0): " } ?? "\(file): ") + key
        warnings.append(ConfigurationWarning(setting: setting, place: place, message: message))
    }

    /// The absolute path. Relative paths are relative to the configuration file.
    package func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        let directory = file.lastIndex(of: "/").map { String(file[...$0]) } ?? ""
        return directory + (path.hasPrefix("./") ? String(path.dropFirst(2)) : path)
    }

    /// The problems in the order of the file, beginning with those without a line.
    package var sortedProblems: [ConfigurationProblem] {
        problems.enumerated().sorted { ($0.element.line ?? 0, $0.offset) < ($1.element.line ?? 0, $1.offset) }
            .map(\.element)
    }
}

extension ConfigurationReader {
    /// Reads and checks a whole file and the files that it names. It changes nothing.
    ///
    /// - Parameters:
    ///   - path: absolute, or relative to the working directory.
    ///   - environment: the environment, which may contain CREDENTIALS_DIRECTORY.
    ///   - examinesPlaces: the value of ``examinesPlaces``.
    ///   - keys: the names of the allowed sections.
    ///   - read: creates the settings from the file's root and its text; nil after a reported problem.
    /// - Throws: all problems found, in the order of the file.
    package static func load<Settings>(
        path: String, environment: [String: String], examinesPlaces: Bool = false, keys: [String],
        _ read: (_ root: ConfigurationSection, _ text: String) -> Settings?
    ) throws(ConfigurationProblems) -> (settings: Settings, warnings: [ConfigurationWarning]) {
        let file = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        let reader = ConfigurationReader(file: file, environment: environment, examinesPlaces: examinesPlaces)
        let settings = reader.root(keys).flatMap { read($0.section, $0.text) }
        guard reader.problems.isEmpty, let settings else {
            throw ConfigurationProblems(problems: reader.sortedProblems)
        }
        return (settings, reader.warnings)
    }

    /// The file's root and its text; nil after a reported problem.
    private func root(_ keys: [String]) -> (section: ConfigurationSection, text: String)? {
        let text: String
        do throws(SmallFile.Failure) {
            text = try SmallFile.text(at: file, maximumBytes: YAMLDocument.maximumBytes)
        } catch {
            problem("", line: nil, "cannot be read: \(error)")
            return nil
        }
        // libyaml accepts a byte order mark, but then counts the columns of the first line's keys one too high.
        guard !text.unicodeScalars.starts(with: ["\u{FEFF}"]) else {
            problem(
                "", line: 1,
                "begins with a byte order mark (BOM), as some editors write one; save the file as UTF-8 without a BOM")
            return nil
        }
        let document = YAMLDocument.root(of: text, reader: self)
        guard problems.isEmpty else { return nil }
        return (ConfigurationSection(document, path: "", keys: keys, reader: self), text)
    }
}

/// One problem of the configuration.
package struct ConfigurationProblem: Sendable, Equatable, CustomStringConvertible {
    package let file: String
    /// The line, from 1; nil for the whole file.
    package let line: Int?
    /// The path of the key, such as `listener.mode` or `tokens[0].uri`; empty for the whole file.
    package let key: String
    /// The problem and the remedy, in one or two sentences without a final full stop.
    package let message: String

    /// The problem in one line: `FILE:LINE: KEY: what is wrong; what to do`.
    package var description: String {
        (line.map { "\(file):\($0): " } ?? "\(file): ") + (key.isEmpty ? "" : "\(key): ") + message
    }
}

/// A permitted setting that needs attention, usually because it weakens the service.
package struct ConfigurationWarning: Sendable, Equatable {
    /// A kind of setting that causes a warning. Each program defines its own kinds in an extension.
    package struct Setting: Sendable, Hashable {
        /// The label of the metric `…_insecure_settings{setting}`, if it has one.
        package let rawValue: String
        /// True if the metric shows the setting; otherwise only `--check` and the log show it.
        package let isInsecure: Bool

        package init(_ rawValue: String, isInsecure: Bool = true) {
            self.rawValue = rawValue
            self.isInsecure = isInsecure
        }
    }

    package let setting: Setting
    /// The key of the setting, with its file and line: `/etc/paytokend.yaml:31: approvals.people`.
    package let place: String
    package let message: String

    /// The log line's message.
    package var headline: String { setting.isInsecure ? "insecure setting" : "warning of the configuration" }
}

/// All problems of one configuration, in the order of the file. Never empty.
package struct ConfigurationProblems: Error, CustomStringConvertible {
    package let problems: [ConfigurationProblem]

    package init(problems: [ConfigurationProblem]) {
        self.problems = problems
    }

    package var description: String { problems.map(\.description).joined(separator: "\n") }
}

/// One YAML 1.1 document as a tree of nodes with line numbers, without anchors, aliases and custom tags.
package enum YAMLDocument {
    /// The largest document, many times larger than any configuration needs.
    package static let maximumBytes = 256 * 1024

    /// The root node; nil for an empty document, or if a problem was reported to `reader`.
    package static func root(of text: String, reader: ConfigurationReader) -> Node? {
        do {
            // A node keeps its anchor only while its parser exists.
            let parser = try Parser(yaml: text, encoding: .utf8)
            guard let root = try parser.singleRoot() else { return nil }
            // In this tree, an alias is a copy of its anchor's node, so aliases of aliases grow exponentially. The tree
            // is therefore not traversed below an anchor.
            if let line = withExtendedLifetime(parser, { firstAnchor(in: root) }) {
                reader.problem("", line: line, "anchors and aliases (& and *) are not accepted; write the value out")
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

    /// Reports the line of a mistake. The parser detects an unclosed element only where it cannot continue, in a later
    /// line or at the end of the file. The reported line is therefore the one where the element begins.
    private static func report(
        _ problem: String, _ context: YamlError.Context?, _ mark: Mark, of text: String, to reader: ConfigurationReader
    ) {
        let opened = [
            "quoted scalar": "a quoted text", "flow sequence": "a list in [ ]", "flow mapping": "a section in { }",
        ]
        if let context, let (_, what) = opened.first(where: { context.text.contains($0.key) }),
            context.mark.line != mark.line
        {
            reader.problem(
                "", line: context.mark.line,
                "is not YAML: \(what) begins here and is not closed before line \(mark.line); close it, or quote what is in it "
                    + "(\(problem))")
        } else {
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).count
            reader.problem("", line: min(mark.line, lines), "is not YAML: \(problem)")
        }
    }

    private static func report(_ error: YamlError, to reader: ConfigurationReader) {
        switch error {
        case .scanner(let context, let problem, let mark, let text),
            .parser(let context, let problem, let mark, let text),
            .composer(let context, let problem, let mark, let text):
            report(problem, context, mark, of: text, to: reader)
        case .duplicatedKeysInMapping(let duplicates, let context):
            reader.problem(
                ConfigurationText.shown(duplicates.first ?? ""), line: context.mark.line,
                "duplicate key: it occurs here and again further down in the same section; keep one of them")
        case .reader(let problem, let offset, _, let text):
            let line = offset.map { text.prefix($0).count(where: \.isNewline) + 1 }
            reader.problem("", line: line, "is not YAML: \(problem)")
        default: reader.problem("", line: nil, "is not YAML")
        }
    }
}
