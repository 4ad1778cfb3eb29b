import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// The mutual authentication of daemon and server.
@Suite("The login to a PostgreSQL server")
struct ServerLoginTests {
    private func settings(_ url: String, passwordFile: String? = nil) throws -> PostgreSQLLedger.Settings {
        PostgreSQLLedger.Settings(
            url: try PostgreSQLURL(url), passwordFile: passwordFile, node: "node-1", timeout: .seconds(60))
    }

    @Test("reads the password from a file that only its owner may read, and reports a wrong one without it")
    func password() async throws {
        let server = try await PostgreSQLServer()
        let database = try await LedgerDatabases(server: server).make()
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) PASSWORD 'correct horse'")
        try await server.require("local all \(LedgerDatabases.daemon) scram-sha-256")
        let url = server.url(database.name, user: LedgerDatabases.daemon)
        let directory = try FreshDirectory()
        let right = try directory.write("correct horse\n", to: "right")
        let ledger = try await PostgreSQLLedger.open(settings(url, passwordFile: right))
        try await ledger.probe()
        await ledger.close()
        let wrong = try directory.write("battery staple\n", to: "wrong")
        let open = try directory.write("correct horse\n", to: "open", mode: 0o644)
        for (file, words) in [
            (wrong, "refuses the login"), (open, "others"), (directory.path("none"), "none"),
            (nil, "refuses the login"),
        ] {
            let error = await #expect(throws: LedgerOpeningError.self) {
                try await PostgreSQLLedger.open(settings(url, passwordFile: file))
            }
            let text = "\(String(describing: error?.description)) \(String(reflecting: error))"
            guard case .cannotOpen? = error else {
                Issue.record("\(text)")
                continue
            }
            #expect(text.contains(words) && !text.contains("horse") && !text.contains("staple"), "\(text)")
        }
    }

    @Test("uses a password that was changed on the server and in the file for the next connection")
    func changedPassword() async throws {
        let server = try await PostgreSQLServer()
        let databases = try await LedgerDatabases(server: server)
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) PASSWORD 'first'")
        try await server.require("local all \(LedgerDatabases.daemon) scram-sha-256")
        let directory = try FreshDirectory()
        let file = try directory.write("first\n", to: "password")
        let fixture = try await PostgreSQLFixture(databases) { $0.passwordFile = file }
        #expect(try await fixture.release(1).verdict == .released)
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) PASSWORD 'second'")
        try directory.write("second\n", to: "password")
        try await fixture.endSessions()
        #expect(try await fixture.release(2).verdict == .released)
    }

    @Test(
        "accepts only the right certificate with verify-full, not an expired, foreign or otherwise rooted one"
    )
    func certificates() async throws {
        let certificates = try await ServerCertificates()
        let server = try await PostgreSQLServer.onTCP()
        let database = try await LedgerDatabases(server: server).make()
        for certificate in ServerCertificate.allCases {
            try await server.use(certificate, of: certificates)
            for (mode, isInsecure) in [("verify-full", false), ("require", true)] {
                let url =
                    server.url(host: "localhost", database.name, user: LedgerDatabases.daemon)
                    + "?sslmode=\(mode)&sslrootcert="
                    + (mode == "verify-full" ? certificates.root : "/nonexistent")
                if certificate == .right || isInsecure {
                    let ledger = try await PostgreSQLLedger.open(settings(url))
                    #expect(ledger.insecureSettings.contains(.databaseTLS) == isInsecure)
                    await ledger.close()
                } else {
                    let error = await #expect(throws: LedgerOpeningError.self) {
                        try await PostgreSQLLedger.open(settings(url))
                    }
                    #expect(
                        "\(String(describing: error))".contains("TLS with the server fails"),
                        "\(String(describing: error))")
                }
            }
        }
    }

    @Test(
        "reports synchronous_commit below on, refuses it with a required standby, and sets it in every batch"
    )
    func synchronousCommit() async throws {
        let databases = try await LedgerDatabases(server: PostgreSQLServer())
        let server = databases.server
        for (choice, isInsecure) in [("on", false), ("remote_apply", false), ("local", true), ("remote_write", true)] {
            try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) SET synchronous_commit = \(choice)")
            let database = try await databases.make()
            var wanted = try settings(server.url(database.name, user: LedgerDatabases.daemon))
            let permissive = try await PostgreSQLLedger.open(wanted)
            #expect(permissive.insecureSettings.contains(.databaseSynchronousCommit) == isInsecure, "\(choice)")
            await permissive.close()
            wanted.requiresStandby = true
            do throws(LedgerOpeningError) {
                await (try await PostgreSQLLedger.open(wanted)).close()
                #expect(!isInsecure, "\(choice)")
            } catch {
                guard case .cannotOpen(_, let reason) = error else { throw error }
                #expect(isInsecure && reason.contains("remote_apply for the role paytokend"), "\(choice): \(reason)")
            }
        }
        try await server.sql("ALTER ROLE \(LedgerDatabases.daemon) SET synchronous_commit = off")
        let fixture = try await PostgreSQLFixture(databases)
        #expect(fixture.ledger.insecureSettings.contains(.databaseSynchronousCommit))
        // This constraint checks the setting that is in effect when a claim is inserted.
        try await fixture.database.sql(
            """
            ALTER TABLE claim ADD CHECK (current_setting('synchronous_commit') = 'on')
            """)
        #expect(try await fixture.release(1).verdict == .released)
    }
}
