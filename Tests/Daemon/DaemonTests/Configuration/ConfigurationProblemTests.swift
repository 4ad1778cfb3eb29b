import Foundation
import TestSupport
import Testing

@testable import ConfigurationFile
@testable import DaemonConfiguration

/// A section that a test appends to the minimum configuration from line 6 on, and the beginning of the problem that the
/// daemon must report.
struct WrongSection: Sendable, CustomTestStringConvertible {
    let text: String
    let problem: String

    init(_ text: String, _ problem: String) {
        self.text = text
        self.problem = problem
    }

    var testDescription: String { problem }
}

@Suite("Configuration problems")
struct ConfigurationProblemTests {
    @Test(
        "names the key and line of each problem",
        arguments: [
            WrongSection("listner: {}", "6 listner: unknown key; did you mean listener?"),
            WrongSection("xyzzy: 1", "6 xyzzy: unknown key; known here: listener, tokens"),
            WrongSection("listener:\n  sockett: /a", "7 listener.sockett: unknown key; did you mean socket?"),
            WrongSection(
                "listener:\n  socket: /a\n  Socket: /b", "8 listener.Socket: unknown key; did you mean socket?"),
            WrongSection("listener: 5", "6 listener: must be a section"),
            WrongSection("listener: [a]", "6 listener: must be a section"),
            WrongSection("listener:\n  socket: 12", "7 listener.socket: must be text; put it in quotes"),
            WrongSection("listener:\n  socket: [a]", "7 listener.socket: must be a single value"),
            WrongSection("listener:\n  socket: \"\"", "7 listener.socket: must be a path, not empty"),
            WrongSection(
                "listener:\n  socket: /\(String(repeating: "a", count: 107))", "7 listener.socket: is too long"),
            WrongSection(
                "listener:\n  socket: /run/x\n  admin_socket: /run/x",
                "8 listener.admin_socket: is also the payments socket"),
            WrongSection("listener:\n  mode: \"0999\"", "7 listener.mode: must be a socket's permission bits"),
            WrongSection("listener:\n  mode: \"0770\"", "7 listener.mode: must be a socket's permission bits"),
            WrongSection("listener:\n  mode: \"0060\"", "7 listener.mode: must be a socket's permission bits"),
            WrongSection("listener:\n  mode: 432", "7 listener.mode: must be a socket's permission bits"),
            WrongSection("listener:\n  mode: rw", "7 listener.mode: must be a socket's permission bits"),
            WrongSection(
                "listener:\n  group: no-such-group-here", "7 listener.group: there is no group “no-such-group-here”"),
            WrongSection(
                "listener:\n  max_request_bytes: many", "7 listener.max_request_bytes: must be a whole number"),
            WrongSection("listener:\n  max_request_bytes: 1e5", "7 listener.max_request_bytes: must be a whole number"),
            WrongSection("listener:\n  max_request_bytes: \"65536\"", "7 listener.max_request_bytes: must be a whole"),
            WrongSection(
                "listener:\n  max_request_bytes: 0x1000", "7 listener.max_request_bytes: must be a whole number"),
            WrongSection("listener:\n  max_request_bytes: 1023", "7 listener.max_request_bytes: is out of range"),
            WrongSection("listener:\n  max_request_bytes: 16777217", "7 listener.max_request_bytes: is out of range"),
            WrongSection("listener:\n  max_connections: 0", "7 listener.max_connections: is out of range"),
            WrongSection("listener:\n  max_connections: -1", "7 listener.max_connections: is out of range"),
            WrongSection(
                "listener:\n  max_connections_per_uid: 0", "7 listener.max_connections_per_uid: is out of range"),
            WrongSection("listener:\n  idle_timeout: 60", "7 listener.idle_timeout: must be a whole number and a unit"),
            WrongSection(
                "listener:\n  idle_timeout: 1.5s", "7 listener.idle_timeout: must be a whole number and a unit"),
            WrongSection(
                "listener:\n  idle_timeout: -5s", "7 listener.idle_timeout: must be a whole number and a unit"),
            WrongSection(
                "listener:\n  idle_timeout: 5 s", "7 listener.idle_timeout: must be a whole number and a unit"),
            WrongSection("listener:\n  idle_timeout: 5w", "7 listener.idle_timeout: must be a whole number and a unit"),
            WrongSection(
                "listener:\n  idle_timeout: 99999999999999999999s", "7 listener.idle_timeout: must be a whole number"),
            WrongSection("listener:\n  idle_timeout: 1ms", "7 listener.idle_timeout: is out of range"),
            WrongSection("listener:\n  idle_timeout: off", "7 listener.idle_timeout: cannot be off"),
            WrongSection("trust:\n  roots: root.pem", "7 trust.roots: must be a list"),
            WrongSection("trust:\n  roots:\n    - none.pem", "8 trust.roots[0]: "),
            WrongSection("trust:\n  roots: [pin]", "7 trust.roots[0]: "),
            WrongSection("trust:\n  google_pay: none.json", "7 trust.google_pay: "),
            WrongSection("trust:\n  google_pay: pin", "7 trust.google_pay: "),
            WrongSection("trust:\n  google_pay: [pin]", "7 trust.google_pay: must be a single value"),
            WrongSection("trust:\n  distrusted: [abcd]", "7 trust.distrusted[0]: must be a certificate's SHA-256"),
            WrongSection(
                "trust:\n  distrusted:\n    - \(String(repeating: "0g", count: 32))", "8 trust.distrusted[0]: must be"),
            WrongSection(
                "verification:\n  signing_time_window: 0s", "7 verification.signing_time_window: is out of range"),
            WrongSection(
                "verification:\n  signing_time_window: on", "7 verification.signing_time_window: must be a whole"),
            WrongSection("ledger:\n  url: /var/lib/x.sqlite", "7 ledger.url: must be sqlite: and a path"),
            WrongSection("ledger:\n  url: \"sqlite:\"", "7 ledger.url: must be sqlite: and a path"),
            WrongSection(
                "ledger:\n  node: a@b", "7 ledger.node: must be 1 to 64 letters, digits, dots, hyphens and under"),
            WrongSection("ledger:\n  node: all", "7 ledger.node: is reserved: in queries, all means every node"),
            WrongSection("ledger:\n  node: \"a b\"", "7 ledger.node: must be 1 to 64 letters"),
            WrongSection(
                "ledger:\n  retain_claims: 9m\n  repeat_for: off", "7 ledger.retain_claims: must be at least twice"),
            WrongSection("ledger:\n  retain_claims: 10m\n  repeat_for: 1h", "8 ledger.repeat_for: is longer than"),
            WrongSection(
                "ledger:\n  password_file: pin", "7 ledger.password_file: applies only to a ledger in PostgreSQL"),
            WrongSection(
                "ledger:\n  require_standby: true", "7 ledger.require_standby: applies only to a ledger in PostgreSQL"),
            WrongSection("ledger:\n  timeout: 50ms", "7 ledger.timeout: is out of range; it must be from 100ms to 1m"),
            WrongSection("ledger:\n  timeout: 2m", "7 ledger.timeout: is out of range"),
            WrongSection("ledger:\n  timeout: off", "7 ledger.timeout: cannot be off"),
            WrongSection("renewal:", "6 renewal: has no value"),
            WrongSection("renewal: { issuer: a-b }", "6 renewal.key_id: is missing"),
            WrongSection(
                "renewal: { issuer: \"a b\", key_id: 2X9R4HXF34 }",
                "6 renewal.issuer: must be 1 to 64 letters, digits and hyphens"),
            WrongSection("renewal: { issuer: a, key_id: b, node: c }", "6 renewal.node: unknown key"),
            WrongSection(
                "renewal: { issuer: a, key_id: b, nodes: [c, c] }", "6 renewal.nodes: must have the names of 1 to 1024"),
            WrongSection("renewal: { issuer: a, key_id: b, nodes: [\"c d\"] }", "6 renewal.nodes: must have the names"),
            WrongSection("approvals:\n  people: 0", "7 approvals.people: must be 2 or 1"),
            WrongSection(
                "approvals:\n  people: 3",
                "7 approvals.people: must be 2 or 1, without quotes; with 2, one person requests and another approves, "
                    + "and no operation takes more approvals"),
            WrongSection("approvals:\n  people: 10", "7 approvals.people: must be 2 or 1"),
            WrongSection("approvals:\n  people: \"2\"", "7 approvals.people: must be 2 or 1, without quotes"),
            WrongSection("approvals:\n  expire: off", "7 approvals.expire: cannot be off"),
            // If keys without a value were accepted, an administrator who comments out a rule's limits would extend the
            // rule by mistake.
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt]\n    merchants:", "9 access[0].merchants: has no value"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt]\n    require_expected:\n",
                "9 access[0].require_expected: has no value"),
            WrongSection(
                "access:\n  - user: root\n    group: ~\n    roles: [decrypt]", "8 access[0].group: has no value"),
            WrongSection("access: []", "6 access: is empty"),
            WrongSection("access:", "6 access: has no value; list a rule for each caller"),
            WrongSection(
                "log:\n  level: 'info\nlistener: {}\n",
                "7 : is not YAML: a quoted text begins here and is not closed before line"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt, verify\nlistener:\n  max_connections: 5",
                "8 : is not YAML: a list in [ ] begins here and is not closed before line"),
            WrongSection(
                "log: { level: info\nlistener: {}", "6 : is not YAML: a section in { } begins here and is not closed"),
            WrongSection("log:\n  level: \u{1}info", "7 : is not YAML: control characters are not allowed"),
            WrongSection("log:\n level: info\n  x: y", "8 : is not YAML: mapping values are not allowed"),
            WrongSection("access: root", "6 access: must be a list"),
            WrongSection("access:\n  - roles: [decrypt]", "7 access[0].user: is missing, and so is group"),
            WrongSection("access:\n  - user: root", "7 access[0].roles: is missing"),
            WrongSection("access:\n  - user: root\n    roles: []", "8 access[0].roles: is empty"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decript]",
                "8 access[0].roles[0]: “decript” is not known; did you mean decrypt?"),
            WrongSection("access:\n  - user: root\n    roles: decrypt", "8 access[0].roles: must be a list"),
            WrongSection(
                "access:\n  - user: no-such-user-here\n    roles: [decrypt]",
                "7 access[0].user: there is no user “no-such-user-here”"),
            WrongSection(
                "access:\n  - group: no-such-group-here\n    roles: [decrypt]",
                "7 access[0].group: there is no group “no-such-group-here”"),
            WrongSection("access:\n  - user: 65534\n    roles: [decrypt]", "7 access[0].user: is the overflow uid"),
            WrongSection("access:\n  - group: 65534\n    roles: [decrypt]", "7 access[0].group: is the overflow gid"),
            WrongSection(
                "access:\n  - name: \"1000\"\n    user: root\n    roles: [decrypt]",
                "7 access[0].name: must not be a number"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt]\n    merchants: []", "9 access[0].merchants: is empty"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt]\n    require_expected: [currency]",
                "9 access[0].require_expected[0]: “currency” is not known"),
            WrongSection(
                "access:\n  - user: root\n    roles: [decrypt]\n    rolls: 1",
                "9 access[0].rolls: unknown key; did you mean roles?"),
            WrongSection(
                "access:\n  - user: daemon\n    roles: [admin]", "7 approvals.people: 2 persons are needed, but only 1"),
            WrongSection("log:\n  level: loud", "7 log.level: must be one of trace, debug"),
            WrongSection(
                "log:\n  level: inf",
                "7 log.level: must be one of trace, debug, info, notice, warning, error, critical; did you mean info?"),
            WrongSection("log:\n  format: xml", "7 log.format: must be one of json, text"),
            WrongSection("log: { level: info }\nlog: { level: info }", "6 log: duplicate key"),
            WrongSection("log:\n  level: info\n  level: debug", "7 level: duplicate key"),
            WrongSection("\"log\\e[31m\": {}\n\"log\\e[31m\": {}", "6 log?[31m: duplicate key"),
            WrongSection("log: &anchor { level: info }", "6 : anchors and aliases"),
            WrongSection("log: {level: info", "6 : is not YAML: a section in { } begins here and is not closed"),
            WrongSection("log:\n\tlevel: info", "7 : is not YAML"),
            WrongSection("---\nlog: {}", "6 : is not YAML"),
            WrongSection("log: !!binary aGVsbG8=", "6 log: must be a section"),
        ])
    func namesKeyAndLine(wrong: WrongSection) throws {
        let problem = try ConfigurationFixture().problem(wrong.text)
        #expect(problem.hasPrefix(wrong.problem), "\(problem)")
    }

    @Test(
        "reports the problems of an HSM token's section",
        arguments: [
            ("module: gone.so", "3 tokens[0].module: the library"),
            ("module: /etc", "3 tokens[0].module: /etc is not a file"),
            ("module: /dev/null", "3 tokens[0].module: /dev/null is not a file"),
            ("uri: \"pkcs11:token=a?pin-value=1234\"", "4 tokens[0].uri: holds the PIN itself"),
            ("uri: \"pkcs11:slot-id=3\"", "4 tokens[0].uri: names a slot"),
            ("uri: \"pkcs11:token=a;slot-id=3\"", "4 tokens[0].uri: names a slot"),
            ("uri: \"pkcs11:manufacturer=x\"", "4 tokens[0].uri: names no HSM token"),
            ("uri: \"pkcs11:\"", "4 tokens[0].uri: names no HSM token"),
            ("uri: \"pkcs11:token=a;token=b\"", "4 tokens[0].uri: has the attribute \"token\" twice"),
            ("uri: \"pkcs11:token=a;\"", "4 tokens[0].uri: has an attribute that is not name=value"),
            ("uri: \"pkcs11:token=%zz\"", "4 tokens[0].uri: has a \"%\" in \"token\""),
            ("uri: \"pkcs11:token=a b\"", "4 tokens[0].uri: has a character in \"token\" that must be"),
            ("uri: \"pkcs11:token=a;object=b\"", "4 tokens[0].uri: has an attribute other than"),
            ("uri: \"https://token\"", "4 tokens[0].uri: must be a PKCS#11 URI"),
            (
                "uri: \"pkcs11:token=a?pin-source=file:pin\"",
                "4 tokens[0].uri: has a pin-source that is not an absolute path"
            ),
            (
                "uri: \"pkcs11:token=a?pin-source=%7Ccat%20pin\"",
                "4 tokens[0].uri: has a pin-source that is not an absolute"
            ),
            (
                "uri: \"pkcs11:token=a?pin-source=file:/etc/pin\"",
                "5 tokens[0].pin_file: is set together with a pin-source"
            ),
            ("pin_file: gone", "5 tokens[0].pin_file: cannot read"),
            ("pin_file: open-pin", "5 tokens[0].pin_file: the secret's file"),
            ("pin_file: empty-pin", "5 tokens[0].pin_file: the secret's file"),
            ("name: \"a b\"", "2 tokens[0].name: must be 1 to 64 letters"),
            ("name: {a: b}", "2 tokens[0].name: must be a single value"),
        ])
    func namesTokenProblems(line: String, expected: String) throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write("1234", to: "open-pin", mode: 0o644)
        try fixture.directory.write("\n", to: "empty-pin")
        let key = line.prefix { $0 != ":" }
        let lines = ConfigurationFixture.minimum.split(separator: "\n").map { original in
            original.contains("\(key):") ? original.prefix(4) + line : original
        }
        let problems = fixture.problems(lines.joined(separator: "\n"))
        #expect(problems.count == 1)
        #expect(problems.first?.hasPrefix(expected) == true, "\(problems)")
    }

    @Test(
        "checks the numbers and the environment of an HSM token's section",
        arguments: [
            ("sessions: 0", "6 tokens[0].sessions: is out of range"),
            ("sessions: 300", "6 tokens[0].sessions: is out of range"),
            ("call_timeout: 1ms", "6 tokens[0].call_timeout: is out of range"),
            ("recycle_after: 0", "6 tokens[0].recycle_after: is out of range"),
            ("allow_extractable_secret: maybe", "6 tokens[0].allow_extractable_secret: must be true or false"),
            ("environment: [A]", "6 tokens[0].environment: must be names with values"),
            ("environment: { \"A=B\": c }", "6 tokens[0].environment: must be names with values"),
            ("environment: { A: \"b\\nc\" }", "6 tokens[0].environment: must be names with values"),
            ("init_args: 5", "6 tokens[0].init_args: must be text"),
            ("deny_system_calls: execve", "6 tokens[0].deny_system_calls: must be a list"),
            (
                "deny_system_calls: [fork, exceve]",
                "6 tokens[0].deny_system_calls[1]: exceve cannot be denied; did you mean execve?"
            ),
            ("deny_system_calls: [read]", "6 tokens[0].deny_system_calls[0]: read cannot be denied; "),
            (
                "deny_system_calls: [59]",
                "6 tokens[0].deny_system_calls[0]: 59 cannot be denied; use one of: fork, execve"
            ),
        ])
    func namesTokenNumbers(line: String, expected: String) throws {
        let problem = try ConfigurationFixture().problem("    \(line)")
        #expect(problem.hasPrefix(expected), "\(problem)")
    }

    @Test("reports all problems of a file, in the order of the file")
    func reportsAll() throws {
        let problems = try ConfigurationFixture().problems(
            """
            listener:
              mode: "0999"
              idle_timeout: 60
            tokens:
              - name: primary
                module: module.so
            log:
              levle: info
            """)
        #expect(
            problems.map { $0.prefix { $0 != ":" } } == [
                "2 listener.mode", "3 listener.idle_timeout", "5 tokens[0].uri", "5 tokens[0].pin_file", "8 log.levle",
            ])
    }

    @Test("formats a problem as FILE:LINE: KEY: message")
    func problemFormat() throws {
        let fixture = try ConfigurationFixture()
        let error = #expect(throws: ConfigurationProblems.self) {
            _ = try fixture.load(ConfigurationFixture.minimum + "log:\n  format: xml\n")
        }
        #expect(
            error?.description == "\(fixture.directory.path("c.yaml")):7: log.format: must be one of json, text")
    }

    @Test(
        "refuses a missing tokens section and an empty list",
        arguments: [
            ("", "- tokens: is missing"), ("log: {}", "- tokens: is missing"), ("tokens: []", "1 tokens: is empty"),
            ("tokens:", "- tokens: is missing"), ("tokens: {}", "1 tokens: must be a list"),
        ])
    func tokensMissing(text: String, expected: String) throws {
        let problems = try ConfigurationFixture().problems(text)
        #expect(problems.first?.hasPrefix(expected) == true, "\(problems)")
    }

    /// The YAML of further HSM tokens with these names, one on each line.
    private func hsmTokens(_ names: some Sequence<String>) -> String {
        names.map { "  - { name: \($0), module: module.so, uri: \"pkcs11:token=\($0)\", pin_file: pin }\n" }.joined()
    }

    @Test("accepts sixteen HSM tokens in their order, and refuses the seventeenth")
    func manyTokens() throws {
        let names = (2...17).map { "t\($0)" }
        let configuration = try ConfigurationFixture().load(ConfigurationFixture.minimum + hsmTokens(names.prefix(15)))
        #expect(configuration.hsmTokens.map(\.name) == ["primary"] + names.prefix(15))
        let problem = try ConfigurationFixture().problem(hsmTokens(names))
        #expect(problem == "21 tokens[16]: is one too many: one daemon serves at most 16 HSM tokens")
    }

    @Test("refuses two HSM tokens of one name at the line of the second")
    func hsmTokenNames() throws {
        let problem = try ConfigurationFixture().problem(hsmTokens(["second", "primary", "third"]))
        #expect(problem == "7 tokens[2].name: is primary, the same as tokens[0].name; give each HSM token its own name")
    }

    @Test("names each problem of any of several HSM tokens")
    func problemsOfEachHSMToken() throws {
        let problem = try ConfigurationFixture().problem(
            "  - { name: second, module: gone.so, uri: \"pkcs11:token=b\", pin_file: pin }")
        #expect(problem.hasPrefix("6 tokens[1].module: the library"))
    }

    @Test("refuses aliases of aliases at once, instead of expanding them")
    func aliasBomb() throws {
        var text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1..<30 {
            let aliases = Array(repeating: "*a\(level - 1)", count: 10).joined(separator: ", ")
            text += "a\(level): &a\(level) [\(aliases)]\n"
        }
        let problems = try ConfigurationFixture().problems(text)
        #expect(problems == ["1 : anchors and aliases (& and *) are not accepted; write the value out"])
    }

    @Test("explains a byte order mark, of UTF-8 and of UTF-16")
    func byteOrderMarks() throws {
        let fixture = try ConfigurationFixture()
        #expect(
            fixture.problems("\u{FEFF}log: {}\nlistener: {}\n") == [
                "1 : begins with a byte order mark (BOM), as some editors write one; save the file as UTF-8 without a BOM"
            ])
        try fixture.directory.write([0xFF, 0xFE, 0x6C, 0x00], to: "wide.yaml")
        let problems = #expect(throws: ConfigurationProblems.self) {
            _ = try Configuration.load(path: fixture.directory.path("wide.yaml"))
        }
        #expect(problems?.description.contains("it is UTF-16; save it as UTF-8 without a byte order mark") == true)
    }

    @Test("refuses deep nesting, a large file, bytes that are not UTF-8, and a missing file")
    func inputLimits() throws {
        let fixture = try ConfigurationFixture()
        #expect(fixture.problems(String(repeating: "[", count: 30_000)).first?.contains("is not YAML") == true)
        #expect(
            fixture.problems("#" + String(repeating: "x", count: 300_000)).first?.contains("cannot be read") == true)
        try fixture.directory.write([0x61, 0xFF, 0xFE], to: "bytes.yaml")
        for name in ["bytes.yaml", "missing.yaml", "."] {
            #expect(throws: ConfigurationProblems.self) {
                _ = try Configuration.load(path: fixture.directory.path(name))
            }
        }
    }

    @Test("keeps control characters of a key out of the message")
    func escapesKeys() throws {
        let problem = try ConfigurationFixture().problem("\"a\\n\\e[31mb\": 1")
        #expect(!problem.contains("\n") && !problem.contains("\u{1B}"))
    }
}
