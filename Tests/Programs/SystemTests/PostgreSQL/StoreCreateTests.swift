import Foundation
import StrictJSON
import TestSupport
import Testing

/// `paytoken-gateway store create`, started by an operator or a program.
@Suite struct StoreCreateTests {
    private static let (owner, gateway) = ("payments_owner", "paytoken_gateway")

    private static let server = Task {
        let server = try await PostgreSQLServer()
        for role in [owner, gateway] { try await server.sql("CREATE ROLE \(role) LOGIN") }
        return server
    }

    /// Makes an empty database that belongs to the owner's role.
    private func empty() async throws -> (server: PostgreSQLServer, name: String, url: String) {
        let server = try await Self.server.value
        let name = "c\(UInt64.random(in: .min ... .max))"
        try await server.sql("CREATE DATABASE \(name) OWNER \(Self.owner)")
        return (server, name, server.url(name, user: Self.owner))
    }

    private func create(_ arguments: String...) async throws -> ProgramResult {
        try await Program.run(Program.built("paytoken-gateway"), ["store", "create"] + arguments)
    }

    @Test("makes and grants the tables once, and changes nothing in a repeated run")
    func createsTablesOnce() async throws {
        let (_, name, url) = try await empty()
        let first = try await create(url, "--grant", Self.gateway, "--output", "json")
        try #require(first.status == 0, "\(first)")
        let made = try JSONValue(parsing: first.outputBytes)
        #expect(made.string("status") == "created" && made.string("owner") == Self.owner)
        #expect(made.string("granted") == Self.gateway && made.string("server")?.hasSuffix("/\(name)") == true)
        let again = try await create(url)
        #expect(again.status == 0 && again.error == "", "\(again)")
        #expect(again.output.hasPrefix("Status        unchanged\n"), "\(again)")
        #expect(again.output.hasSuffix("Granted to    no role\n"), "\(again)")
    }

    @Test("sets the role's connection limit with --connections, and exits with 78 without the right to")
    func connections() async throws {
        let (server, name, url) = try await empty()
        let refused = try await create(url, "--grant", Self.gateway, "--connections", "51")
        #expect(refused.status == 78 && refused.error.contains("CONNECTION LIMIT 51;"), "\(refused)")
        try await server.sql(
            "CREATE ROLE limited LOGIN; CREATE ROLE ruler LOGIN CREATEROLE; GRANT limited TO ruler WITH ADMIN OPTION")
        try await server.sql("ALTER DATABASE \(name) OWNER TO ruler")
        let made = try await create(server.url(name, user: "ruler"), "--grant", "limited", "--connections", "51")
        #expect(made.status == 0, "\(made)")
        #expect(made.output.hasSuffix("Granted to    limited, with at most 51 connections\n"), "\(made)")
        #expect(try await server.sql("SELECT rolconnlimit FROM pg_roles WHERE rolname = 'limited'") == "51")
    }

    @Test("reads a password from a file that no other user can read, and never shows it")
    func password() async throws {
        let server = try await PostgreSQLServer()
        try await server.sql("CREATE ROLE \(Self.owner) LOGIN PASSWORD 'correct horse'")
        try await server.sql("CREATE DATABASE payments OWNER \(Self.owner)")
        try await server.require("local all \(Self.owner) scram-sha-256")
        let url = server.url("payments", user: Self.owner)
        let directory = try FreshDirectory()
        let right = try directory.write("correct horse\n", to: "right")
        let wrong = try directory.write("battery staple\n", to: "wrong")
        let open = try directory.write("correct horse\n", to: "open", mode: 0o644)
        for (arguments, status) in [
            (["--password-file", wrong], 78), (["--password-file", open], 77),
            (["--password-file", directory.path("none")], 66), ([], 78), (["--password-file", right], 0),
        ] as [([String], Int32)] {
            let result = try await Program.run(
                Program.built("paytoken-gateway"), ["store", "create", url] + arguments)
            #expect(result.status == status, "\(arguments): \(result)")
            #expect(!result.error.contains("horse") && !result.error.contains("staple"), "\(result)")
        }
        let shown = try await create("postgresql://owner:hunter2@db1/x")
        #expect(shown.status == 64 && !shown.error.contains("hunter2") && shown.output == "", "\(shown)")
    }

    @Test("explains each failure and what to do")
    func explainedFailures() async throws {
        let (server, name, url) = try await empty()
        let nobody = try await create(url, "--grant", "nobody; DROP TABLE x")
        #expect(nobody.status == 78 && nobody.error.contains("createuser"), "\(nobody)")
        // The command works in one transaction, so a failure leaves no schema.
        #expect(try await server.sql("SELECT to_regnamespace('paytoken_gateway') IS NULL", in: name) == "t")
        let guest = try await create(server.url(name, user: Self.gateway))
        #expect(guest.status == 78 && guest.error.contains("log in as the owner"), "\(guest)")
        #expect(try await create(url).status == 0)
        try await server.sql("UPDATE paytoken_gateway.payment_store SET schema_version = 99", in: name)
        let newer = try await create(url)
        #expect(newer.status == 1 && newer.error.contains("99"), "\(newer)")
        let theirs = try await empty()
        try await server.sql(
            "CREATE SCHEMA paytoken_gateway; CREATE TABLE paytoken_gateway.theirs ()", in: theirs.name)
        let foreign = try await create(server.url(theirs.name, user: PostgreSQLServer.superuser))
        #expect(foreign.status != 0, "\(foreign)")
        #expect(
            try await server.sql("SELECT to_regclass('paytoken_gateway.payment') IS NULL", in: theirs.name) == "t")
        let away = try await create("postgresql://owner@/x?host=/nowhere")
        #expect(away.status == 75, "\(away)")
    }
}
