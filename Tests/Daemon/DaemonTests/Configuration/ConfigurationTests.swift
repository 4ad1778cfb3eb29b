import AccessControl
import AuditChain
import Foundation
import Glibc
import PaymentToken
import StrictJSON
import TestSupport
import Testing
import TokenForge
import WorkerSupervision

@testable import ConfigurationFile
@testable import Daemon
@testable import DaemonConfiguration
@testable import HostSystem
@testable import Telemetry

@Suite("Configurations that load")
struct ConfigurationTests {
    @Test("the least configuration has the contract's defaults")
    func defaults() throws {
        let fixture = try ConfigurationFixture()
        let configuration = try fixture.load(ConfigurationFixture.minimum)
        let listener = configuration.listener
        #expect(listener.socket == "/run/paytokend/paytokend.sock")
        #expect(listener.adminSocket == "/run/paytokend/admin.sock")
        #expect(listener.mode == 0o660 && listener.adminMode == 0o600 && listener.group == nil)
        #expect(listener.maxRequestBytes == 65_536)
        #expect(listener.maxConnections == 512 && listener.maxConnectionsPerUID == 128)
        #expect(listener.idleTimeout == .seconds(60))
        let hsmToken = try #require(configuration.hsmTokens.first)
        #expect(hsmToken.sessions == 2 && hsmToken.callTimeout == .seconds(10) && hsmToken.recycleAfter == 1_000_000)
        #expect(!hsmToken.allowExtractableSecret && hsmToken.environment.isEmpty && hsmToken.initArgs.isEmpty)
        #expect(configuration.trust == TrustSettings())
        #expect(configuration.signingTimeWindow == .within(.seconds(300)))
        #expect(configuration.ledger.path == "/var/lib/paytokend/ledger.sqlite" && configuration.ledger.node == nil)
        #expect(configuration.ledger.retainClaims == .seconds(180 * 86_400))
        #expect(configuration.ledger.repeatFor == .seconds(86_400))
        #expect(configuration.ledger.timeout == .seconds(10))
        #expect(configuration.approvals == ApprovalSettings(people: 2, expire: .seconds(86_400)))
        #expect(configuration.access == .ownUserAndRoot())
        #expect(configuration.log == LogSettings(level: .info, format: .json))
        #expect(configuration.warnings.isEmpty)
    }

    @Test("reads every option of the contract")
    func allOptions() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write(SharedForge.authority.root.certificatePEM, to: "root.pem")
        let configuration = try fixture.load(
            """
            listener:
              socket: run/p.sock
              admin_socket: /tmp/a.sock
              mode: "0666"
              group: daemon
              admin_mode: "0660"
              max_request_bytes: 100000
              max_connections: 10
              max_connections_per_uid: 5
              idle_timeout: 1500ms
            tokens:
              - name: primary
                module: module.so
                uri: "pkcs11:token=pay%20tokend;serial=1a?pin-source=file:\(fixture.directory.path("pin"))"
                sessions: 16
                call_timeout: 2m
                recycle_after: 5000
                allow_extractable_secret: true
                environment: { SOFTHSM2_CONF: /etc/softhsm2.conf, LEVEL: 3 }
                init_args: "configdir='sql:x'"
                deny_system_calls: [execve, connect, execve]
            trust:
              roots: [root.pem]
              distrusted:
                - 63:34:3A:BF:B8:9A:6A:03:EB:B5:7E:9B:3F:5F:A7:BE:7C:4F:5C:75:6F:30:17:B3:A8:C4:88:C3:65:3E:91:79
                - 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
            verification: { signing_time_window: 10m }
            ledger:
              url: sqlite:ledger.sqlite
              node: backend-1
              retain_claims: 90d
              repeat_for: off
              timeout: 2500ms
            approvals: { people: 1, expire: 1h }
            access:
              - name: checkout
                user: root
                group: daemon
                roles: [decrypt, monitor]
                merchants: ["merchant.com.example.*", merchant.x]
                require_expected: [currencyCode, transactionAmount]
                signing_time_window: off
              - user: 4242
                roles: [admin]
            log: { level: debug, format: text }
            """)
        #expect(configuration.listener.socket == fixture.directory.path("run/p.sock"))
        #expect(configuration.listener.adminSocket == "/tmp/a.sock")
        #expect(configuration.listener.mode == 0o666 && configuration.listener.adminMode == 0o660)
        #expect(configuration.listener.group?.name == "daemon")
        #expect(configuration.listener.maxRequestBytes == 100_000)
        #expect(configuration.listener.maxConnections == 10 && configuration.listener.maxConnectionsPerUID == 5)
        #expect(configuration.listener.idleTimeout == .milliseconds(1_500))
        #expect(
            configuration.hsmTokens == [
                HSMTokenSettings(
                    name: "primary", module: fixture.directory.path("module.so"),
                    uri: "pkcs11:token=pay%20tokend;serial=1a", pinFile: fixture.directory.path("pin"), sessions: 16,
                    callTimeout: .seconds(120), recycleAfter: 5_000, allowExtractableSecret: true,
                    environment: ["SOFTHSM2_CONF": "/etc/softhsm2.conf", "LEVEL": "3"], initArgs: "configdir='sql:x'",
                    refusedLogins: fixture.directory.path("refused-logins-primary"),
                    deniedSystemCalls: ["execve", "connect"])
            ])
        #expect(configuration.trust.rootFiles == [fixture.directory.path("root.pem")])
        #expect(configuration.trust.roots.count == 1)
        #expect(configuration.trust.distrusted.map(\.first).sorted { ($0 ?? 0) < ($1 ?? 0) } == [0x00, 0x63])
        #expect(configuration.trust.distrusted.allSatisfy { $0.count == 32 })
        #expect(configuration.signingTimeWindow == .within(.seconds(600)))
        #expect(configuration.ledger.path == fixture.directory.path("ledger.sqlite"))
        #expect(configuration.ledger.node == "backend-1" && configuration.ledger.repeatFor == .zero)
        #expect(configuration.ledger.timeout == .milliseconds(2_500))
        #expect(configuration.approvals == ApprovalSettings(people: 1, expire: .seconds(3_600)))
        let rules = configuration.access.rules
        #expect(rules.count == 2)
        #expect(rules[0].name == "checkout" && rules[0].user?.id == 0 && rules[0].group?.name == "daemon")
        #expect(rules[0].roles == [.decrypt, .monitor])
        #expect(rules[0].merchants?.map(\.text) == ["merchant.com.example.*", "merchant.x"])
        #expect(rules[0].requireExpected == ["currencyCode", "transactionAmount"])
        #expect(rules[0].signingTimeWindow == .off)
        #expect(rules[1].user?.id == 4_242 && rules[1].merchants == nil && rules[1].signingTimeWindow == nil)
        #expect(configuration.log == LogSettings(level: .debug, format: .text))
    }

    @Test(
        "loads each sample configuration unchanged, with exactly the accounts that the unit file asks for",
        arguments: ["paytokend.yaml", "paytokend-minimal.yaml", "paytokend-postgresql.yaml"])
    func sampleFiles(file: String) throws {
        let samples = ProjectFiles.url("hsm-config")
        let unit = try String(contentsOf: samples.appending(path: "paytokend.service"), encoding: .utf8)
        var text = try String(contentsOf: samples.appending(path: file), encoding: .utf8)
        // The sample's accounts and files depend on the installation. The test replaces them with the number 4242,
        // which needs no account, and with the fixture's files.
        let fixture = try ConfigurationFixture()
        try fixture.directory.write("password\n", to: "ledger-password")
        try fixture.directory.write("certificate\n", to: "db-ca.pem")
        let users = Self.accounts(createdBy: "useradd", unit)
        let groups = Self.accounts(createdBy: "groupadd", unit)
        try #require(users == ["paytokend"] && groups == ["paytokend-socket", "payments"])
        for user in users { text.replace("user: \(user)", with: "user: 4242") }
        for group in groups { text.replace("group: \(group)", with: "group: 4242") }
        text.replace("/etc/paytokend/", with: "\(fixture.directory.path)/")
        text.replace("/usr/lib/softhsm/libsofthsm2.so", with: fixture.directory.path("module.so"))
        #expect(fixture.problems(text) == [])
        #expect(try fixture.load(text).warnings.isEmpty)
    }

    /// The users or groups that the instructions in the unit file's comments create with `command`. Each is on a line
    /// `#   COMMAND OPTIONS NAME`, which may end with another `#` and an explanation.
    private static func accounts(createdBy command: String, _ unit: String) -> [String] {
        unit.split(separator: "\n").filter { $0.hasPrefix("#   \(command) ") }.compactMap { line in
            line.dropFirst().prefix { $0 != "#" }.split(separator: " ").last.map(String.init)
        }
    }

    @Test("reads off, \"off\" and false alike", arguments: ["off", "\"off\"", "false", "'off'", "Off"])
    func valueOff(text: String) throws {
        let configuration = try ConfigurationFixture().load(
            ConfigurationFixture.minimum + "verification: { signing_time_window: \(text) }")
        #expect(configuration.signingTimeWindow == .off)
        #expect(configuration.warnings.map(\.setting) == [.signingTimeWindowOff])
    }

    @Test(
        "reads durations in every unit",
        arguments: [
            ("1500ms", Duration.milliseconds(1_500)), ("60s", .seconds(60)), ("5m", .seconds(300)),
            ("2h", .seconds(7_200)),
            ("1d", .seconds(86_400)), ("\"60s\"", .seconds(60)),
        ])
    func durations(text: String, duration: Duration) throws {
        let configuration = try ConfigurationFixture().load(
            ConfigurationFixture.minimum + "listener: { idle_timeout: \(text) }")
        #expect(configuration.listener.idleTimeout == duration)
    }

    @Test(
        "warns about a rule that an earlier rule makes unreachable, with both lines",
        arguments: [
            // Root's primary group is root on every system.
            (["group: root", "user: root"], [1]), (["user: root", "user: root"], [1]),
            (["user: root", "user: 0"], [1]),
            (["group: root", "user: root, group: daemon"], [1]), (["group: daemon", "group: daemon"], [1]),
            (["group: daemon", "user: root", "group: daemon", "user: 0"], [2, 3]),
            (["user: root", "group: root"], []), (["user: root, group: daemon", "user: root"], []),
            (["group: daemon", "user: root"], []), (["user: 4242", "user: 4243"], []),
            (["user: root, group: root", "user: root, group: daemon"], [1]),
        ])
    func unreachedRules(rules: [String], unreached: [Int]) throws {
        let lines = rules.map { "  - { \($0), roles: [decrypt] }\n" }
        let fixture = try ConfigurationFixture()
        let text = ConfigurationFixture.minimum + "access:\n" + lines.joined() + "approvals: { people: 1 }\n"
        let warnings = try fixture.load(text).warnings.filter { $0.setting == .unreachedRule }
        let first = ConfigurationFixture.minimum.count { $0 == "\n" } + 2
        #expect(
            warnings.map(\.place)
                == unreached.map { "\(fixture.directory.path("c.yaml")):\(first + $0): access[\($0)].user" })
        #expect(warnings.allSatisfy { $0.message.contains("the rule in line ") && !$0.message.contains("?") })
    }

    @Test(
        "warns about a rule with require_expected that would match the gateway's account, with its line",
        arguments: [
            (["{ group: root, roles: [decrypt], require_expected: [currencyCode] }"], 2),
            (["{ user: root, roles: [decrypt], require_expected: [currencyCode] }"], 2),
            (["{ user: root, roles: [session], require_expected: [currencyCode] }"], nil),
            (
                [
                    "{ user: root, roles: [decrypt] }",
                    "{ group: root, roles: [decrypt], require_expected: [currencyCode] }",
                ], nil
            ),
            (["{ user: daemon, roles: [decrypt], require_expected: [currencyCode] }"], nil),
        ] as [([String], Int?)])
    func gatewayExpectations(rules: [String], line: Int?) throws {
        let directory = try FreshDirectory()
        try directory.write("access:\n" + rules.map { "  - \($0)\n" }.joined(), to: "c.yaml")
        let file = directory.path("c.yaml")
        let (_, warnings) = try ConfigurationReader.load(path: file, environment: [:], keys: ["access"]) { root, _ in
            AccessPolicy(root, namesCallers: false, gateway: .init(name: "root", uid: 0, gid: 0))
        }
        #expect(
            warnings.filter { $0.setting == .gatewayExpectations }.map(\.place)
                == (line.map { ["\(file):\($0): access[0].require_expected"] } ?? []))
    }

    @Test("warns about each setting that weakens the service, with its line")
    func weakSettingsWarned() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write(SharedForge.authority.root.certificatePEM, to: "root.pem")
        let configuration = try fixture.load(
            ConfigurationFixture.minimum + """
                trust: { roots: [root.pem] }
                verification:
                  signing_time_window: off
                approvals: { people: 1 }
                """)
        #expect(Set(configuration.warnings.map(\.setting)) == [.foreignRoots, .signingTimeWindowOff, .onePerson])
        let file = fixture.directory.path("c.yaml")
        #expect(configuration.warnings.contains { $0.place == "\(file):8: verification.signing_time_window" })
        let instruments = Instruments()
        instruments.show(warnings: configuration.warnings)
        #expect(instruments.insecureSettings.value(["one_person"]) == 1)
        instruments.show(warnings: [])
        #expect(instruments.insecureSettings.value(["one_person"]) == nil)
    }

    @Test("reads Google's root keys, and warns about the key of Google's TEST environment")
    func googlePay() throws {
        let fixture = try ConfigurationFixture()
        let forge = GooglePayForge()
        try fixture.directory.write(forge.rootKeys(expiration: Date()), to: "google.json")
        let text = ConfigurationFixture.minimum + "trust: { google_pay: google.json }\n"
        let configuration = try fixture.load(text)
        let path = fixture.directory.path("google.json")
        #expect(configuration.trust.googlePay?.file == path)
        let keys = configuration.trust.googlePay?.roots.keys.map { Data($0.key.der) }
        #expect(keys == [forge.root.publicKey.derRepresentation])
        #expect(!configuration.warnings.contains { $0.setting == .googlePayTestRoots })

        try fixture.directory.write(Fixtures.googlePayTestRoots, to: "google.json")
        let place = "\(fixture.directory.path("c.yaml")):6: trust.google_pay"
        #expect(try fixture.load(text).warnings.filter { $0.setting == .googlePayTestRoots }.map(\.place) == [place])

        try fixture.directory.write(GooglePayText.rootKeys([(forge.root.publicKey, "ECv1", nil)]), to: "google.json")
        let reason = "no entry has the protocolVersion ECv2 and a keyExpiration"
        let problem = "6 trust.google_pay: \(path) holds no root keys of Google's: \(reason)"
        #expect(fixture.problems(text) == [problem])
    }

    @Test("finds a systemd credential through its directory")
    func systemdCredential() throws {
        let fixture = try ConfigurationFixture()
        let text = ConfigurationFixture.minimum.replacing("pin_file: pin", with: "pin_file: $CREDENTIALS_DIRECTORY/pin")
        let configuration = try fixture.load(text, environment: ["CREDENTIALS_DIRECTORY": fixture.directory.path])
        #expect(configuration.hsmTokens.first?.pinFile == fixture.directory.path("pin"))
        #expect(
            fixture.problems(text).first?.hasPrefix("5 tokens[0].pin_file: CREDENTIALS_DIRECTORY is not set") == true)
    }

    @Test("reads several roots from one PEM file, and one from a DER file")
    func rootFiles() throws {
        let fixture = try ConfigurationFixture()
        let root = try SharedForge.authority.root
        try fixture.directory.write("# two roots\n\(root.certificatePEM)\n\(root.certificatePEM)", to: "both.pem")
        try fixture.directory.write(root.certificate, to: "root.der")
        let configuration = try fixture.load(ConfigurationFixture.minimum + "trust: { roots: [both.pem, root.der] }")
        #expect(configuration.trust.rootFiles.count == 2)
        #expect(configuration.trust.roots.count == 3)
    }

    @Test("finds each operation that needs a second person in the sample and in the API's description")
    func namedOperations() throws {
        let sample = try String(contentsOf: ProjectFiles.url("hsm-config/paytokend.yaml"), encoding: .utf8)
        let section = try #require(sample.components(separatedBy: "\napprovals:\n").last)
        let comment = try #require(section.components(separatedBy: "\n  people: 2\n").first)
        let description = try JSONValue(
            parsing: Array(Data(contentsOf: ProjectFiles.url("Sources/Service/DaemonAPI/openapi.json"))))
        var schema: JSONValue? = description
        for name in ["components", "schemas", "ApprovalOperation", "enum"] {
            schema = schema?.objectValue?[name]
        }
        let described = (schema?.arrayValue ?? []).compactMap(\.stringValue)
        #expect(Set(described) == Set(ApprovalOperation.allCases.map(\.rawValue)))
        let words = Set(comment.split { !$0.isLetter && $0 != "_" }.map(String.init))
        for operation in ApprovalOperation.allCases { #expect(words.contains(operation.rawValue), "\(operation)") }
    }

    @Test("counts one account as one person under any names in the rules")
    func accountsAreCounted() throws {
        let problem = try ConfigurationFixture().problem(
            "access: [{ user: daemon, roles: [admin] }, { name: second, user: \"1\", roles: [admin] }]")
        #expect(problem.hasPrefix("6 approvals.people: 2 persons are needed, but only 1"), "\(problem)")
        #expect(problem.contains("people who share one count as one person"), "\(problem)")
    }

    @Test("refuses a PIN file that other members of a group can read; the daemon's own user and root do not count")
    func groupReadablePIN() {
        let (root, own) = (Accounts.User(name: "root", uid: 0, gid: 0), Accounts.User(name: "hsm", uid: 990, gid: 990))
        let alice = Accounts.User(name: "alice", uid: 1001, gid: 100)
        let bob = Accounts.User(name: "bob", uid: 1002, gid: 990)
        #expect(SecretFileReaders(group: "hsm", gid: 990, members: [root, own], ownUID: 990) == nil)
        #expect(SecretFileReaders(group: "hsm", gid: 990, members: [], ownUID: 990) == nil)
        for members in [[root, own, bob, alice], [bob, alice, bob]] {
            let readers = SecretFileReaders(group: "hsm", gid: 990, members: members, ownUID: 990)
            #expect(readers?.people == ["alice", "bob"])
            let problem = readers?.problem(use: "log in")
            #expect(problem?.contains("the group hsm: alice, bob. With the secret they log in: ") == true)
        }
        // If root checks the configuration, a user with the group's name is not reported as a reader, because the daemon
        // may run as that user.
        #expect(SecretFileReaders(group: "hsm", gid: 990, members: [root, own], ownUID: 0) == nil)
        #expect(SecretFileReaders(group: "hsm", gid: 990, members: [own, bob], ownUID: 0)?.people == ["bob"])
        #expect(SecretFileReaders(group: "staff", gid: 990, members: [own], ownUID: 0)?.people == ["hsm"])
    }

    private static let crowded = Accounts.members(ofGroup: 65_534)

    @Test(
        "refuses a configuration file that names such a PIN file",
        .enabled("only root gives a file to another group, and here nogroup has members") {
            geteuid() == 0 && crowded?.users.contains { $0.uid != 0 && $0.name != crowded?.name } == true
        })
    func groupReadablePINFile() throws {
        let fixture = try ConfigurationFixture()
        let pin = fixture.directory.path("pin")
        try #require(unsafe chown(pin, 0, 65_534) == 0)
        _ = try fixture.load(ConfigurationFixture.minimum)
        try #require(unsafe chmod(pin, 0o640) == 0)
        let problem = try fixture.problem("")
        #expect(problem.hasPrefix("5 tokens[0].pin_file: the secret's file \(pin) can be read by the members of"))
        #expect(problem.contains("chmod g-r"))
        // The group root has no member except root, so the daemon accepts the file although the group can read it.
        try #require(unsafe chown(pin, 0, 0) == 0)
        _ = try fixture.load(ConfigurationFixture.minimum)
    }

    @Test(
        "accepts two persons with admin as enough for approvals, without counting users who reach root by sudo",
        arguments: [
            "[{ user: daemon, roles: [admin] }, { user: bin, roles: [admin] }]", "[{ user: root, roles: [admin] }]",
        ])
    func enoughPersons(access: String) throws {
        let configuration = try ConfigurationFixture().load(ConfigurationFixture.minimum + "access: \(access)")
        #expect(configuration.approvals.people == 2)
    }

    @Test("does not count a person whose role an earlier rule removes")
    func earlierRuleCounts() throws {
        let problem = try ConfigurationFixture().problem(
            "access: [{ user: bin, roles: [decrypt] }, { user: daemon, roles: [admin] }, { user: bin, roles: [admin] }]"
        )
        #expect(problem.hasPrefix("6 approvals.people: 2 persons are needed, but only 1"), "\(problem)")
    }
}
