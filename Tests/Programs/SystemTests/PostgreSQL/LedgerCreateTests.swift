import Foundation
import StrictJSON
import TestSupport
import Testing

/// `paytokenctl ledger create`, and the rights that it grants to the daemon's role.
@Suite struct LedgerCreateTests {
    private static let server = Task {
        let server = try await PostgreSQLServer()
        for role in [DaemonDatabase.owner, DaemonDatabase.daemon] { try await server.sql("CREATE ROLE \(role) LOGIN") }
        return server
    }

    /// Makes an empty database that belongs to the owner's role.
    private func empty() async throws -> (server: PostgreSQLServer, name: String, url: String) {
        let server = try await Self.server.value
        let name = "c\(UInt64.random(in: .min ... .max))"
        try await server.sql("CREATE DATABASE \(name) OWNER \(DaemonDatabase.owner)")
        return (server, name, server.url(name, user: DaemonDatabase.owner))
    }

    private func create(_ arguments: String...) async throws -> ProgramResult {
        try await Program.run(Program.built("paytokenctl"), ["ledger", "create"] + arguments)
    }

    private func answer(_ result: ProgramResult) throws -> JSONValue {
        try #require(result.status == 0, "\(result)")
        return try JSONValue(parsing: result.outputBytes)
    }

    @Test("makes the schema once, checks it in a dry run, and changes nothing in a repeated run")
    func createsSchemaOnce() async throws {
        let (server, name, url) = try await empty()
        let dry = try await create(url, "--grant", "paytokend", "--dry-run", "--output", "json")
        let planned = try answer(dry)
        #expect(planned.string("status") == "possible" && dry.error.contains("Nothing was changed"), "\(dry)")
        #expect(planned.objectValue?["version"] == nil && planned.objectValue?["granted"] == nil, "\(dry)")
        #expect(planned.string("wouldGrant") == "paytokend", "\(dry)")
        let shown = try await create(url, "--grant", "paytokend", "--dry-run")
        #expect(shown.output.contains("Schema        none, would be "), "\(shown)")
        #expect(shown.output.hasSuffix("Granted to    no role, would be paytokend\n"), "\(shown)")
        #expect(try await server.sql("SELECT to_regnamespace('paytokend') IS NULL", in: name) == "t")
        let made = try answer(try await create(url, "--grant", "paytokend", "--output", "json"))
        #expect(made.string("status") == "created" && made.string("owner") == DaemonDatabase.owner)
        #expect(made.string("granted") == "paytokend" && made.string("server")?.hasSuffix("/\(name)") == true)
        let again = try await create(url)
        #expect(again.status == 0 && again.error == "", "\(again)")
        #expect(again.output.hasPrefix("Status        unchanged\n"), "\(again)")
        #expect(again.output.hasSuffix("Granted to    no role\n"), "\(again)")
    }

    @Test(
        "refuses the daemon's role the right to change or delete records, audit checkpoints and claims",
        arguments: ["audit_record", "checkpoint", "claim"])
    func leastRights(table: String) async throws {
        let (server, name, url) = try await empty()
        #expect(try await create(url, "--grant", "paytokend").status == 0)
        let column = table == "claim" ? "transaction_id" : "line"
        for statement in [
            "DELETE FROM paytokend.\(table)", "UPDATE paytokend.\(table) SET \(column) = ''",
            "TRUNCATE paytokend.\(table)", "DROP TABLE paytokend.\(table)",
            "ALTER TABLE paytokend.\(table) DISABLE TRIGGER ALL",
        ] {
            let error = await #expect(throws: HarnessFailure.self) {
                try await server.sql(statement, in: name, as: DaemonDatabase.daemon)
            }
            let said = error?.description ?? ""
            #expect(said.contains("permission denied") || said.contains("must be owner"), "\(statement): \(said)")
        }
        #expect(try await server.sql("SELECT count(*) FROM paytokend.\(table)", in: name, as: "paytokend") == "0")
    }

    @Test("sets the connection limit with --connections, fails without the right to, and keeps it otherwise")
    func connections() async throws {
        let (server, name, url) = try await empty()
        try await server.sql(
            "CREATE ROLE limited LOGIN; CREATE ROLE ruler LOGIN CREATEROLE; GRANT limited TO ruler WITH ADMIN OPTION")
        let limit = { try await server.sql("SELECT rolconnlimit FROM pg_roles WHERE rolname = 'limited'") }
        let refused = try await create(url, "--grant", "limited", "--connections", "24")
        #expect(refused.status == 78 && refused.error.contains("ALTER ROLE limited CONNECTION LIMIT 24;"), "\(refused)")
        #expect(try await server.sql("SELECT to_regnamespace('paytokend') IS NULL", in: name) == "t")
        for arguments in [["--connections", "24"], ["--connections", "0", "--grant", "limited"]] {
            let wrong = try await Program.run(Program.built("paytokenctl"), ["ledger", "create", url] + arguments)
            #expect(wrong.status == 64 && wrong.error.contains("--connections"), "\(wrong)")
        }
        try await server.sql("ALTER DATABASE \(name) OWNER TO ruler")
        let ruler = server.url(name, user: "ruler")
        let planned = try answer(
            try await create(ruler, "--grant", "limited", "--connections", "24", "--dry-run", "--output", "json"))
        #expect(planned.objectValue?["wouldLimit"]?.numberValue?.int == 24)
        #expect(try await limit() == "-1")
        let made = try answer(try await create(ruler, "--grant", "limited", "--connections", "24", "--output", "json"))
        #expect(made.objectValue?["connectionLimit"]?.numberValue?.int == 24)
        #expect(try await limit() == "24")
        let again = try await create(ruler, "--grant", "limited")
        #expect(again.status == 0 && again.output.hasSuffix("Granted to    limited\n"), "\(again)")
        #expect(try await limit() == "24")
    }

    @Test("reads the password from a file or the terminal, and never from the arguments")
    func password() async throws {
        let server = try await PostgreSQLServer()
        try await server.sql("CREATE ROLE ledger_owner LOGIN PASSWORD 'correct horse'")
        try await server.sql("CREATE DATABASE ledger OWNER ledger_owner")
        try await server.require("local all ledger_owner scram-sha-256")
        let url = server.url("ledger", user: "ledger_owner")
        let directory = try FreshDirectory()
        let right = try directory.write("correct horse\n", to: "right")
        let wrong = try directory.write("battery staple\n", to: "wrong")
        let open = try directory.write("correct horse\n", to: "open", mode: 0o644)
        #expect(try await create(url, "--password-file", right).status == 0)
        for (arguments, status, words) in [
            (["--password-file", wrong], 78, "refuses the login"), (["--password-file", open], 77, "others"),
            (["--password-file", directory.path("none")], 66, "No such file"), ([], 78, "refuses the login"),
            (["--password-file", right, "--ask-password"], 64, "exclude each other"),
        ] as [([String], Int32, String)] {
            let result = try await Program.run(Program.built("paytokenctl"), ["ledger", "create", url] + arguments)
            #expect(result.status == status && result.error.contains(words), "\(arguments): \(result)")
            #expect(!result.error.contains("horse") && !result.error.contains("staple"), "\(result)")
        }
        // script(1) provides a terminal for the password, and writes the terminal's output.
        let command = "\(try Program.built("paytokenctl")) ledger create --ask-password '\(url)'"
        let typed = try await Program.run(
            Program.installed("script"), ["-qec", command, "/dev/null"], input: Array("correct horse\n".utf8))
        #expect(typed.status == 0, "\(typed)")
        #expect(typed.output.contains("Password of ledger_owner: ") && typed.output.contains("unchanged"), "\(typed)")
    }

    @Test("refuses a password in the URL, and does not show it")
    func passwordInURL() async throws {
        for url in ["postgresql://owner:hunter2@db1/x", "postgresql://db1/x?password=hunter2"] {
            let result = try await create(url)
            #expect(result.status == 64, "\(result)")
            #expect(!result.error.contains("hunter2") && result.output == "", "\(result)")
        }
    }

    @Test("explains each failure and what to do")
    func explainedFailures() async throws {
        let (server, name, url) = try await empty()
        let nobody = try await create(url, "--grant", "nobody; DROP TABLE x")
        #expect(nobody.status == 78 && nobody.error.contains("createuser"), "\(nobody)")
        let guest = try await create(server.url(name, user: DaemonDatabase.daemon))
        #expect(guest.status == 78 && guest.error.contains("log in as the owner"), "\(guest)")
        #expect(try await create(url).status == 0)
        try await server.sql("UPDATE paytokend.ledger_state SET schema_version = 99", in: name)
        let newer = try await create(url)
        #expect(newer.status == 1 && newer.error.contains("schema 99"), "\(newer)")
        let theirs = try await empty()
        try await server.sql("CREATE SCHEMA paytokend; CREATE TABLE paytokend.theirs ()", in: theirs.name)
        let foreign = try await create(server.url(theirs.name, user: PostgreSQLServer.superuser))
        #expect(foreign.status == 1 && foreign.error.contains("Use another database"), "\(foreign)")
        let away = try await create("postgresql://owner@/x?host=/nowhere")
        #expect(away.status == 75, "\(away)")
    }
}
