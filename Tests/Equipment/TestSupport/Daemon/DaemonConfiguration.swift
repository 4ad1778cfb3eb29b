import Foundation

/// The settings in which a test's daemon differs from the defaults.
public struct DaemonConfiguration: Sendable {
    /// Lines under `listener:`, each `name: value`.
    public var listener: [String] = []
    /// The path of the PKCS#11 library; nil for SoftHSM.
    public var module: String?
    /// Variables added to the environment of every HSM token.
    public var environment: [String: String] = [:]
    /// Lines under `approvals:`.
    public var approvals = ["people: 1"]
    /// Lines under the first HSM token, `primary`.
    public var hsmToken: [String] = []
    /// Names of additional HSM tokens, each with a separate directory and SoftHSM configuration.
    public var furtherHSMTokens: [String] = []
    /// Entries that replace `primary` and ``furtherHSMTokens`` if there are any.
    public var hsmTokens: [TokenEntry] = []
    /// `verification.signing_time_window`.
    public var signingTimeWindow = "5m"
    /// PEM files under `trust.roots`. nil means the root of the shared authority; an empty list keeps Apple's root.
    public var roots: [String]?
    /// SHA-256 fingerprints under `trust.distrusted`, hexadecimal.
    public var distrusted: [String] = []
    /// The path under `trust.google_pay`; nil to omit the setting.
    public var googlePay: String?
    /// Lines under `ledger:` in addition to the URL.
    public var ledger: [String] = []
    /// The ledger's database; nil for a file. With a database, rules of ``access`` without a name receive one.
    public var database: DaemonDatabase?
    /// All rules under `access:`, each a YAML flow mapping. An empty list omits the setting.
    public var access: [String] = []
    /// Lines under `renewal:`; an empty list omits the section.
    public var renewal: [String] = []
    /// `log.level`.
    public var logLevel = "debug"

    public init() {}

    /// The names of all HSM tokens.
    public var hsmTokenNames: [String] { hsmTokens.isEmpty ? ["primary"] + furtherHSMTokens : hsmTokens.map(\.name) }
    /// The names of the SoftHSM tokens that the harness makes.
    var ownHSMTokens: [String] { hsmTokens.isEmpty ? hsmTokenNames : [] }

    /// Returns the configuration file's YAML. Its paths are relative to the directory of the file.
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
        if let googlePay { lines.append("  google_pay: \(googlePay)") }
        lines += ["verification:", "  signing_time_window: \(signingTimeWindow)"]
        lines += ["ledger:", "  url: \(database.map { "\"\($0.url)\"" } ?? "sqlite:ledger.sqlite")"]
        if database != nil, !ledger.contains(where: { $0.hasPrefix("node:") }) { lines.append("  node: node-1") }
        lines += ledger.map { "  \($0)" }
        lines += ["approvals:"] + approvals.map { "  \($0)" }
        let rules = database == nil ? access : namedAccess
        if !rules.isEmpty { lines += ["access:"] + rules.map { "  - \($0)" } }
        if !renewal.isEmpty { lines += ["renewal:"] + renewal.map { "  \($0)" } }
        lines += ["log: { level: \(logLevel), format: json }"]
        return lines.joined(separator: "\n") + "\n"
    }
}

extension DaemonConfiguration {
    /// The rules of ``access``, or the daemon's implicit rules if it is empty. Each has a name.
    private var namedAccess: [String] {
        let roles = "roles: [decrypt, session, portal-read, monitor, audit, admin]"
        let rules =
            access.isEmpty ? Set([geteuid(), 0]).sorted().map { "{ user: \"\($0)\", \(roles) }" } : access
        return rules.enumerated().map { index, rule in
            rule.contains("name:") ? rule : "{ name: rule-\(index), " + rule.dropFirst()
        }
    }
}

/// An entry under `tokens:` for an HSM token that the test made.
public struct TokenEntry: Sendable {
    public let name: String
    /// The entry's YAML, from its dash on.
    let yaml: String
    /// The HSM token, kept because its directory must outlive the daemon.
    private let hsmToken: any WorkersToken

    /// Makes an entry for an HSM token.
    ///
    /// - Parameter lines: additional settings of the entry, each `name: value`.
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

    /// Reads the only entry of a file in hsm-config, and replaces some of its texts.
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
