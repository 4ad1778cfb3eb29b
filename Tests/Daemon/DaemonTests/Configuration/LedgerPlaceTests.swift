import Foundation
import Ledger
import PostgreSQLClient
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration

/// A faulty configuration of a ledger in PostgreSQL: lines under `ledger:` from line 7 on, and the problem.
struct WrongDatabase: Sendable, CustomTestStringConvertible {
    let lines: [String]
    let problem: String

    init(_ lines: String..., problem: String) {
        self.lines = lines
        self.problem = problem
    }

    var testDescription: String { problem }
}

@Suite("Configurations with the ledger in PostgreSQL")
struct LedgerPlaceTests {
    private static let url = "postgresql://paytokend@db1,db2/paytokend?sslmode=verify-full"
    private static let access = "access:\n  - { name: checkout, user: root, roles: [decrypt, admin] }\n"

    private func text(_ lines: [String], access: String = Self.access) -> String {
        ConfigurationFixture.minimum + "ledger:\n" + lines.map { "  \($0)\n" }.joined() + access
    }

    @Test("reads the URL, the password file, the node and the standby; keeps other files in the unit's state directory")
    func allOptions() throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write("Secret of the ledger\n", to: "ledger-password")
        let lines = ["url: \(Self.url)", "node: backend-1", "password_file: ledger-password", "require_standby: true"]
        let configuration = try fixture.load(
            text(lines), environment: ["STATE_DIRECTORY": "/var/lib/paytokend-2:/var/lib/more"])
        #expect(
            configuration.ledger.place
                == .postgresql(
                    LedgerSettings.DatabasePlace(
                        url: try PostgreSQLURL(Self.url), passwordFile: fixture.directory.path("ledger-password"),
                        requiresStandby: true)))
        #expect(configuration.ledger.node == "backend-1" && configuration.ledger.isShared)
        #expect(configuration.ledger.path == nil && configuration.warnings.isEmpty)
        #expect(configuration.hsmTokens[0].refusedLogins == "/var/lib/paytokend-2/refused-logins-primary")
        let plain = try fixture.load(text(["url: \(Self.url)", "node: backend-1"]))
        #expect(plain.hsmTokens[0].refusedLogins == "/var/lib/paytokend/refused-logins-primary")
        let credentials = try fixture.load(
            text([lines[0], lines[1], "password_file: $CREDENTIALS_DIRECTORY/ledger-password"]),
            environment: ["CREDENTIALS_DIRECTORY": fixture.directory.path])
        #expect(credentials.ledger.place != plain.ledger.place)
    }

    @Test(
        "names the key and line of each problem, and never a secret",
        arguments: [
            WrongDatabase(
                "url: postgresql://paytokend:hunter2@db1/paytokend?sslmode=verify-full", "node: a",
                problem: "7 ledger.url: must not contain a password: use password_file,"),
            WrongDatabase(
                "url: \"postgresql://db1/paytokend?sslmode=verify-full&sslpassword=hunter2\"", "node: a",
                problem: "7 ledger.url: must not contain a sslpassword"),
            WrongDatabase("url: postgresql:/db", "node: a", problem: "7 ledger.url: must begin with postgresql://"),
            WrongDatabase(
                "url: \"postgresql://db1/x?hunter2=1\"", "node: a",
                problem: "7 ledger.url: is not a connection URI that libpq accepts"),
            WrongDatabase(
                "url: postgresql:///x?target_session_attrs=any", "node: a",
                problem: "7 ledger.url: must not set target_session_attrs"),
            WrongDatabase(
                "url: \"postgresql://db1/x?sslmode=verify-full&sslrootcert=/no/hunter\"", "node: a",
                problem: "7 ledger.url: the file of its sslrootcert, /no/hunter, cannot be read"),
            WrongDatabase(
                "url: \"postgresql://db1/x?sslmode=hunter2\"", "node: a",
                problem: "7 ledger.url: has a sslmode that is not one of disable"),
            WrongDatabase(
                "url: \"postgresql://db1,db2,db3/x?port=1,2&sslmode=verify-full\"", "node: a",
                problem: "7 ledger.url: has 2 ports for 3 hosts"),
            WrongDatabase(
                "url: \"postgresql:///x?service=no-such-service\"", "node: a",
                problem: "7 ledger.url: names the service no-such-service, which no service file defines"),
            WrongDatabase("url: \(url)", problem: "7 ledger.node: is missing; hosts that share a ledger in PostgreSQL"),
            WrongDatabase(
                "url: \(url)", "node: a", "password_file: gone",
                problem: "9 ledger.password_file: cannot read the secret"),
            WrongDatabase(
                "url: \(url)", "node: a", "password_file: open", problem: "9 ledger.password_file: the secret's file"),
            WrongDatabase(
                "url: \(url)", "node: a", "require_standby: 2",
                problem: "9 ledger.require_standby: must be true or false"),
        ])
    func problems(wrong: WrongDatabase) throws {
        let fixture = try ConfigurationFixture()
        try fixture.directory.write("hunter2", to: "open", mode: 0o644)
        let problems = fixture.problems(text(wrong.lines))
        #expect(problems.count == 1)
        #expect(problems.first?.hasPrefix(wrong.problem) == true, "\(problems)")
        #expect(problems.first?.contains("hunter2") == false)
    }

    @Test("requires rules, and a name for every rule with the role decrypt")
    func rulesNeedNames() throws {
        let fixture = try ConfigurationFixture()
        let lines = ["url: \(Self.url)", "node: backend-1"]
        let nameless = """
            access:
              - { user: root, roles: [monitor, admin] }
              - user: daemon
                roles: [decrypt]
              - { name: shop, user: bin, roles: [decrypt] }

            """
        let problems = fixture.problems(text(lines, access: nameless))
        #expect(problems.count == 1)
        #expect(
            problems.first?.hasPrefix("11 access[1].name: is missing; with a ledger in PostgreSQL") == true,
            "\(problems)")
        let none = fixture.problems(text(lines, access: ""))
        #expect(none.count == 1 && none[0].contains("access: is missing; with a ledger in PostgreSQL"), "\(none)")
        // The missing name and the wrong URL are reported together.
        #expect(fixture.problems(text(["url: postgres:/", "node: a"], access: nameless)).count == 2)
    }

    @Test(
        "warns, at its line, about TLS that does not authenticate the server",
        arguments: ["postgresql://db1/x", "postgresql://db1/x?sslmode=require"])
    func insecureTLSWarned(url: String) throws {
        let warnings = try ConfigurationFixture().load(text(["url: \(url)", "node: a"])).warnings
        #expect(warnings.map(\.setting) == [.databaseTLS])
        #expect(warnings.first?.place.hasSuffix(":7: ledger.url") == true)
    }

    @Test(
        "requires no TLS for a socket on this host",
        arguments: ["postgresql:///paytokend", "postgresql:///x?host=/run/postgresql"])
    func localSocketNeedsNoTLS(url: String) throws {
        #expect(try ConfigurationFixture().load(text(["url: \(url)", "node: a"])).warnings.isEmpty)
    }

    @Test("reads a service from the same files as libpq")
    func readsServiceFile() throws {
        let fixture = try ConfigurationFixture()
        let text = text(["url: postgresql:///x?service=ledger", "node: a"])
        try fixture.directory.write("# ours\n[ledger]\nhost=db1\n", to: ".pg_service.conf")
        let home = ["HOME": fixture.directory.path, "PGSYSCONFDIR": fixture.directory.path("none")]
        #expect(fixture.problems(text, environment: home).isEmpty)
        // The service file that the environment names replaces the service file in the home directory.
        let named = home.merging(["PGSERVICEFILE": fixture.directory.path("none")]) { $1 }
        #expect(fixture.problems(text, environment: named).count == 1)
        let system = ["HOME": "/nowhere", "PGSYSCONFDIR": fixture.directory.path]
        #expect(fixture.problems(text, environment: system).count == 1, "there it is called pg_service.conf")
        try fixture.directory.write("[other]\n[ledger]\n", to: "pg_service.conf")
        #expect(fixture.problems(text, environment: system).isEmpty)
    }

    @Test(
        "refuses to reload a rule without a name while the ledger in use is shared, even if the file names another ledger"
    )
    func reloadWithoutName() throws {
        let fixture = try ConfigurationFixture()
        let shared = try fixture.load(text(["url: \(Self.url)", "node: a"]))
        let named = try fixture.load(text(["url: sqlite:x.sqlite"]))
        let nameless = try fixture.load(
            text(["url: sqlite:x.sqlite"], access: "access:\n  - { user: root, roles: [decrypt, admin] }\n"))
        let live = try LiveConfiguration(shared, instruments: Instruments())
        #expect(live.objection(to: named) == nil)
        #expect(live.objection(to: nameless)?.contains("needs a name") == true)
        #expect(try LiveConfiguration(named, instruments: Instruments()).objection(to: nameless) == nil)
    }

    @Test("keeps the ledger's warning until a restart, despite reloads")
    func warningStays() throws {
        let fixture = try ConfigurationFixture()
        let configuration = try fixture.load(text(["url: postgresql://db1/x", "node: a"]))
        let instruments = Instruments()
        let live = try LiveConfiguration(configuration, instruments: instruments)
        let other = try fixture.load(text(["url: \(Self.url)", "node: a"]))
        #expect(live.replace(with: other, policies: try Policies(other)) == ["ledger"])
        #expect(live.warnings.map(\.setting) == [.databaseTLS])
        #expect(instruments.insecureSettings.value(["database_tls"]) == 1)
    }
}
