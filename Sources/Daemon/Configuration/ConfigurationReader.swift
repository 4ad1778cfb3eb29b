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
