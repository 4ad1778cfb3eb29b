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
