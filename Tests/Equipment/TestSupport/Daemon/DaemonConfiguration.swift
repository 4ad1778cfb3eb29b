import Foundation

/// The configuration of a test's daemon; all other settings have their defaults.
public struct DaemonConfiguration: Sendable {
    /// Lines under `listener:`, each `name: value`.
    public var listener: [String] = []
    /// The PKCS#11 library; nil is SoftHSM itself.
    public var module: String?
    /// Additions to every HSM token's environment.
    public var environment: [String: String] = [:]
    /// Lines under `approvals:`.
    public var approvals = ["people: 1"]
    /// Lines under the first HSM token, `primary`.
    public var hsmToken: [String] = []
    /// Names of further HSM tokens, each with its own directory and SoftHSM configuration.
    public var furtherHSMTokens: [String] = []
    /// The test's own entries instead of `primary` and the further HSM tokens.
    public var hsmTokens: [TokenEntry] = []
    /// `verification.signing_time_window`.
    public var signingTimeWindow = "5m"
    /// PEM files under `trust.roots`; nil names the shared authority's root, empty leaves Apple's in place.
    public var roots: [String]?
    /// SHA-256 fingerprints under `trust.distrusted`, hexadecimal.
    public var distrusted: [String] = []
    /// Lines under `ledger:` in addition to the URL.
    public var ledger: [String] = []
    /// The ledger's database; nil for a file. With a database each rule of `access` gets a name.
    public var database: DaemonDatabase?
    /// The whole `access:` list, each rule one YAML flow mapping; empty omits it.
    public var access: [String] = []
    /// `log.level`.
    public var logLevel = "debug"

    public init() {}

    /// The names of all HSM tokens.
    public var hsmTokenNames: [String] { hsmTokens.isEmpty ? ["primary"] + furtherHSMTokens : hsmTokens.map(\.name) }
    /// The HSM tokens that the harness makes, of SoftHSM.
    var ownHSMTokens: [String] { hsmTokens.isEmpty ? hsmTokenNames : [] }

    /// The YAML. Paths are relative to the file's directory.
    func yaml(module: String, softHSMConfiguration: (_ hsmToken: String) -> String, root: String) -> String {
        var lines = ["listener:", "  socket: p.sock", "  admin_socket: a.sock"]
        lines += listener.map { "  \($0)" }
        lines += [
            "tokens:"
        ]
        lines += hsmTokens.map(\.yaml)
        for name in ownHSMTokens {
            let variables =
                ["SOFTHSM2_CONF: \(softHSMConfiguration(name))"] + environment.map { "\($0.key): \($0.value)" }.sorted()
            lines += [
                "  - name: \(name)", "    module: \(module)", "    uri: \"pkcs11:token=paytokend\"",
                "    pin_file: pin", "    allow_extractable_secret: true",
                "    environment: { \(variables.joined(separator: ", ")) }",
            ]
            if name == "primary" { lines += hsmToken.map { "    \($0)" } }
        }
        let rootList = (roots ?? [root]).joined(separator: ", ")
        let distrustedList = distrusted.map { "\"\($0)\"" }.joined(separator: ", ")
        lines += ["trust:", "  roots: [\(rootList)]", "  distrusted: [\(distrustedList)]"]
        lines += ["verification:", "  signing_time_window: \(signingTimeWindow)"]
        lines += ["ledger:", "  url: \(database.map { "\"\($0.url)\"" } ?? "sqlite:ledger.sqlite")"]
        if database != nil, !ledger.contains(where: { $0.hasPrefix("node:") }) { lines.append("  node: node-1") }
        lines += ledger.map { "  \($0)" }
        lines += ["approvals:"] + approvals.map { "  \($0)" }
        let rules = database == nil ? access : namedAccess
        if !rules.isEmpty { lines += ["access:"] + rules.map { "  - \($0)" } }
        lines += ["log: { level: \(logLevel), format: json }"]
        return lines.joined(separator: "\n") + "\n"
    }
}

extension DaemonConfiguration {
    /// The rules, or the implicit ones without any, each with a name.
    private var namedAccess: [String] {
        let roles = "roles: [decrypt, session, monitor, audit, admin]"
        let rules =
            access.isEmpty ? Set([geteuid(), 0]).sorted().map { "{ user: \"\($0)\", \(roles) }" } : access
        return rules.enumerated().map { index, rule in
            rule.contains("name:") ? rule : "{ name: rule-\(index), " + rule.dropFirst()
        }
    }
}

/// One entry of the configuration's `tokens` for a test's own HSM token.
public struct TokenEntry: Sendable {
    public let name: String
    /// The entry's text in the file, from its dash on.
    let yaml: String
    /// The HSM token; its directory must outlive the daemon.
    private let hsmToken: any WorkersToken

    /// - Parameter lines: further settings, each `name: value`.
    public init(
        _ name: String, _ hsmToken: any WorkersToken, allowExtractableSecret: Bool = true, _ lines: [String] = []
    ) {
        self.name = name
        self.hsmToken = hsmToken
        let environment = hsmToken.environment.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        yaml =
            ([
                "  - name: \(name)", "    module: \(hsmToken.libraryPath)", "    uri: \"\(hsmToken.uri)\"",
                "    pin_file: \(hsmToken.pinFile)", "    allow_extractable_secret: \(allowExtractableSecret)",
                "    init_args: \"\(hsmToken.initializationString)\"",
                "    environment: { \(environment.joined(separator: ", ")) }",
            ] + lines.map { "    \($0)" }).joined(separator: "\n")
    }

    /// The only entry of one of hsm-config's files, with some of its texts replaced.
    public init(sample file: String, _ hsmToken: any WorkersToken, _ replacements: [(text: String, by: String)]) throws
    {
        var text = try String(contentsOf: ProjectFiles.url("hsm-config/\(file)"), encoding: .utf8)
        for (text:old, by:new) in replacements {
            guard text.contains(old) else { throw HarnessFailure(description: "\(file) has no \(old)") }
            text.replace(old, with: new)
        }
        guard let hsmTokens = text.range(of: "\ntokens:\n"), let dash = text.range(of: "  - name: ") else {
            throw HarnessFailure(description: "\(file) has no tokens")
        }
        name = String(text[dash.upperBound...].prefix { $0 != "\n" })
        yaml = String(text[hsmTokens.upperBound...])
        self.hsmToken = hsmToken
    }
}
