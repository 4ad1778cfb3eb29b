import Foundation

/// One entry of the configuration's `tokens` for a token that a test brings itself.
public struct TokenEntry: Sendable {
    public let name: String
    /// The entry as it stands in the file, from its dash on.
    let yaml: String
    /// Its directory must outlive the daemon.
    private let token: any WorkersToken

    /// - Parameter lines: further settings, each `name: value`.
    public init(
        _ name: String, _ token: any WorkersToken, allowExtractableSecret: Bool = true, _ lines: [String] = []
    ) {
        self.name = name
        self.token = token
        let environment = token.environment.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        yaml =
            ([
                "  - name: \(name)", "    module: \(token.libraryPath)", "    uri: \"\(token.uri)\"",
                "    pin_file: \(token.pinFile)", "    allow_extractable_secret: \(allowExtractableSecret)",
                "    init_args: \"\(token.initializationString)\"",
                "    environment: { \(environment.joined(separator: ", ")) }",
            ] + lines.map { "    \($0)" }).joined(separator: "\n")
    }

    /// The only entry of one of hsm-config's files, with other texts in the place of some of its own.
    public init(sample file: String, _ token: any WorkersToken, _ replacements: [(text: String, by: String)]) throws {
        let path = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../hsm-config/\(file)").standardized
        var text = try String(contentsOf: path, encoding: .utf8)
        for (text:old, by:new) in replacements {
            guard text.contains(old) else { throw HarnessFailure(description: "\(file) has no \(old)") }
            text.replace(old, with: new)
        }
        guard let tokens = text.range(of: "\ntokens:\n"), let dash = text.range(of: "  - name: ") else {
            throw HarnessFailure(description: "\(file) has no tokens")
        }
        name = String(text[dash.upperBound...].prefix { $0 != "\n" })
        yaml = String(text[tokens.upperBound...])
        self.token = token
    }
}
