import Foundation

/// What a test's daemon is configured with; the rest are the defaults.
public struct DaemonConfiguration: Sendable {
    /// Lines under `listener:`, each `name: value`.
    public var listener: [String] = []
    /// The PKCS#11 library; nil is SoftHSM itself.
    public var module: String?
    /// More of every token's environment.
    public var environment: [String: String] = [:]
    /// Lines under `approvals:`.
    public var approvals = ["people: 1"]
    /// Lines under the first token, `primary`.
    public var token: [String] = []
    /// Names of further tokens; each has a directory and a SoftHSM configuration of its own.
    public var furtherTokens: [String] = []
    /// Entries of the test's own instead of `primary` and the further tokens.
    public var tokens: [TokenEntry] = []
    /// `verification.signing_time_window`.
    public var signingTimeWindow = "5m"
    /// PEM files under `trust.roots`; nil names the shared authority's root, empty leaves Apple's in place.
    public var roots: [String]?
    /// SHA-256 fingerprints under `trust.distrusted`, hexadecimal.
    public var distrusted: [String] = []
    /// Lines under `ledger:` beside the URL.
    public var ledger: [String] = []
    /// The whole `access:` list, each rule one YAML flow mapping; empty leaves it out.
    public var access: [String] = []
    /// `log.level`.
    public var logLevel = "debug"

    public init() {}

    /// The names of all tokens.
    public var tokenNames: [String] { tokens.isEmpty ? ["primary"] + furtherTokens : tokens.map(\.name) }
    /// Those that the harness makes: SoftHSM's.
    var ownTokens: [String] { tokens.isEmpty ? tokenNames : [] }

    /// The YAML. Paths are relative to the file's directory.
    func yaml(module: String, softHSMConfiguration: (_ token: String) -> String, root: String) -> String {
        var lines = ["listener:", "  socket: p.sock", "  admin_socket: a.sock"]
        lines += listener.map { "  \($0)" }
        lines += [
            "tokens:"
        ]
        lines += tokens.map(\.yaml)
        for name in ownTokens {
            let variables =
                ["SOFTHSM2_CONF: \(softHSMConfiguration(name))"] + environment.map { "\($0.key): \($0.value)" }.sorted()
            lines += [
                "  - name: \(name)", "    module: \(module)", "    uri: \"pkcs11:token=paytokend\"",
                "    pin_file: pin", "    allow_extractable_secret: true",
                "    environment: { \(variables.joined(separator: ", ")) }",
            ]
            if name == "primary" { lines += token.map { "    \($0)" } }
        }
        let rootList = (roots ?? [root]).joined(separator: ", ")
        let distrustedList = distrusted.map { "\"\($0)\"" }.joined(separator: ", ")
        lines += ["trust:", "  roots: [\(rootList)]", "  distrusted: [\(distrustedList)]"]
        lines += ["verification:", "  signing_time_window: \(signingTimeWindow)"]
        lines += ["ledger:", "  url: sqlite:ledger.sqlite"] + ledger.map { "  \($0)" }
        lines += ["approvals:"] + approvals.map { "  \($0)" }
        if !access.isEmpty { lines += ["access:"] + access.map { "  - \($0)" } }
        lines += ["log: { level: \(logLevel), format: json }"]
        return lines.joined(separator: "\n") + "\n"
    }
}
