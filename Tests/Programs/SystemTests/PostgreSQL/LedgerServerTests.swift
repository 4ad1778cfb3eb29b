import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// The daemon with its ledger on a server, at the start and when the server stops and returns.
@Suite struct LedgerServerTests {
    /// Returns a configuration of node-1, whose daemon waits for the database server for at most two seconds.
    private func configuration(_ database: DaemonDatabase, _ more: [String] = []) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.database = database
        configuration.ledger = ["timeout: 2s"] + more
        return configuration
    }

    /// Runs a daemon that must exit at its start, and returns its output and exit status.
    private func start(_ configuration: DaemonConfiguration) async throws -> ProgramResult {
        let harness = try await DaemonHarness(prepared: configuration, initializesToken: false)
        return try await Program.run(Program.built("paytokend"), ["--config", harness.configurationFile])
    }

    @Test(
        "releases nothing while the server is stopped, and continues without a restart when it returns")
    func stoppedServer() async throws {
        let server = try await DaemonDatabase.prepared(PostgreSQLServer())
        let harness = try await DaemonHarness(
            configuration(DaemonDatabase(on: server)), merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        let paymentToken = try SharedForge.paymentToken()
        try await server.stop()
        let refused = try await harness.decrypt(paymentToken, reference: "r")
        #expect(refused.status == 503 && refused.code == "ledger_unavailable", "\(refused)")
        #expect(refused.header("Retry-After").flatMap(Int.init) != nil && refused.member("paymentData") == nil)
        // Requests that need no ledger succeed, and refusals keep their codes.
        #expect(try await harness.verify(paymentToken).status == 200)
        let unknown = try SharedForge.mint.mint(
            TokenRecipe(merchant: SharedForge.ecMerchant.merchant, deviations: [.unknownPublicKeyHash]))
        #expect(try await harness.decrypt(unknown).code == "unknown_public_key_hash")
        // The daemon reuses the result of a readiness check for a second, so the test waits.
        try await wait(for: "503 from /readyz, for the ledger") {
            let ready = try await Curl.request("/readyz", socket: harness.socket)
            return ready.status == 503 && ready.body.holds(Array("\"component\":\"ledger\"".utf8))
        }
        #expect(try await Curl.request("/healthz", socket: harness.socket).status == 200)
        let status = try await harness.paytokenctl(["status"])
        #expect(status.status == 1 && status.error.contains("ledger_unavailable"), "\(status)")
        #expect(try await harness.admin("/metrics").status == 200)

        try await server.start()
        try await harness.waitUntilReady()
        #expect(try await harness.decrypt(paymentToken, reference: "r").status == 200)
        #expect(try await harness.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await harness.stop().status == 0)
    }

    @Test("shows the server, the role, the node and the lease of its name in status and metrics")
    func shownInStatus() async throws {
        let database = try await DaemonDatabase()
        let harness = try await DaemonHarness(configuration(database), merchants: [SharedForge.ecMerchant])
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        let ledger = try #require(try await harness.admin("/v1/status").member("ledger")?.objectValue)
        #expect(ledger["engine"]?.stringValue == "postgresql" && ledger["condition"]?.stringValue == "ready")
        let server = try #require(ledger["server"])
        #expect(server.string("database") == database.name && server.string("role") == DaemonDatabase.daemon)
        #expect(server.string("host") == database.server.directory.path && server.objectValue?["standbys"] == nil)
        #expect(server.string("version")?.isEmpty == false && server.string("systemIdentifier")?.isEmpty == false)
        let node = try #require(ledger["nodes"]?.arrayValue?.first)
        #expect(node.string("name") == "node-1" && node.objectValue?["isLeased"]?.boolValue == true)
        let text = try await harness.paytokenctl(["status"])
        #expect(text.status == 0, "\(text)")
        for words in ["role paytokend", "timeline 1", "none is named", "fencing number 1", "NODE"] {
            #expect(text.output.contains(words), "\(words): \(text)")
        }
        #expect(text.error.contains("names no synchronous standby"), "\(text)")
        #expect(try await harness.metric("paytokend_insecure_settings", "database_standby") == [1])
        #expect(try await harness.metric("paytokend_insecure_settings", "database_tls").isEmpty)
        let age = try #require(try await harness.metric("paytokend_node_lease_age_seconds").first)
        #expect(age < 15)
        let commits = try #require(try await harness.metric("paytokend_ledger_batch_round_trips_count").first)
        let trips = try #require(try await harness.metric("paytokend_ledger_batch_round_trips_sum").first)
        #expect(commits > 0 && trips >= commits)

        let backup = try await harness.paytokenctl(["ledger", "backup", harness.directory.path("copy")])
        #expect(backup.status == 1 && backup.error.contains("pg_dump"), "\(backup)")
        #expect(!FileManager.default.fileExists(atPath: harness.directory.path("copy")))
        #expect(try await harness.stop().status == 0)
    }

    @Test("exits with 75 if another daemon has the node's name, which is free as soon as that daemon stops")
    func secondDaemon() async throws {
        let database = try await DaemonDatabase()
        let harness = try await DaemonHarness(configuration(database), merchants: [SharedForge.ecMerchant])
        let second = try await start(configuration(database))
        #expect(second.status == 75, "\(second)")
        #expect(second.error.contains("Another daemon is node node-1"), "\(second)")
        // Before the second daemon exits, it waits for the lease, and logs which daemon has the node's name.
        #expect(
            second.error.contains("waiting for its lease to end") && second.error.contains("\"until\":\"20"),
            "\(second)")
        #expect(second.error.contains("a daemon at the server's own host"), "\(second)")
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
    }

    @Test("exits with 75 if the server is away, and with 78 for a missing or newer schema or a refused login")
    func startRefused() async throws {
        let server = try await DaemonDatabase.prepared(PostgreSQLServer())
        let newer = try await DaemonDatabase(on: server)
        try await newer.sql("UPDATE ledger_state SET schema_version = 99")
        let refused = try await start(configuration(newer))
        #expect(refused.status == 78 && refused.error.contains("schema 99"), "\(refused)")
        let missing = try await DaemonDatabase(on: server)
        try await missing.sql("DROP SCHEMA paytokend CASCADE")
        let without = try await start(configuration(missing))
        #expect(without.status == 78 && without.error.contains("See: paytokenctl help ledger create\n"), "\(without)")
        let rights = try await DaemonDatabase(on: server)
        try await rights.sql("REVOKE UPDATE (repeats) ON claim FROM \(DaemonDatabase.daemon)")
        let lacking = try await start(configuration(rights))
        #expect(lacking.status == 78 && lacking.error.contains("repeated_at on claim"), "\(lacking)")
        #expect(lacking.error.contains("See: paytokenctl help ledger create\n"), "\(lacking)")
        try await server.require("local all \(DaemonDatabase.daemon) scram-sha-256")
        let login = try await start(configuration(DaemonDatabase(on: server)))
        #expect(login.status == 78 && login.error.contains("refuses the login"), "\(login)")
        try await server.stop()
        let away = try await start(configuration(newer))
        #expect(away.status == 75, "\(away)")
    }

    @Test(
        "warns about a login as the owner of the tables or as a superuser",
        arguments: [
            DaemonDatabase.owner, PostgreSQLServer.superuser,
        ])
    func unboundRole(role: String) async throws {
        var database = try await DaemonDatabase()
        database.url = database.server.url(database.name, user: role)
        let harness = try await DaemonHarness(configuration(database))
        #expect(try await harness.metric("paytokend_insecure_settings", "setting=\"database_owner\"") == [1])
        let status = try await harness.paytokenctl(["status"])
        let said = status.output + status.error
        #expect(said.contains("logs in to the ledger's server as a superuser"), "\(status)")
        let stopped = try await harness.stop()
        #expect(
            stopped.status == 0 && stopped.error.contains("logs in to the ledger's server as a superuser"), "\(stopped)"
        )
        let bound = try await DaemonHarness(configuration(DaemonDatabase()))
        #expect(try await bound.metric("paytokend_insecure_settings", "setting=\"database_owner\"").isEmpty)
        #expect(try await bound.stop().status == 0)
    }

    @Test("names an unavailable server in the help as a reason to try again")
    func help() async throws {
        let help = try await Program.run(Program.built("paytokend"), ["--help"])
        #expect(help.status == 0 && help.output.contains("or its server is unavailable"), "\(help)")
    }

    @Test("exits with 78 and says what to do for an older database, and serves after its acceptance")
    func restoredDatabase() async throws {
        let server = try await DaemonDatabase.prepared(PostgreSQLServer())
        let database = try await DaemonDatabase(on: server)
        let harness = try await DaemonHarness(configuration(database), merchants: [SharedForge.ecMerchant])
        #expect(try await harness.stop().status == 0)
        try await server.sql("CREATE DATABASE kept TEMPLATE \(database.name) OWNER \(DaemonDatabase.owner)")
        try await harness.start()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await harness.stop().status == 0)
        try await server.sql("DROP DATABASE \(database.name)")
        try await server.sql("ALTER DATABASE kept RENAME TO \(database.name)")

        // Each refused start adds records, so the restored database's last sequence soon reaches that of the head in
        // the HSM token.
        for _ in 0..<3 {
            let refused = try await Program.run(Program.built("paytokend"), ["--config", harness.configurationFile])
            #expect(refused.status == 78, "\(refused)")
            #expect(
                refused.error.contains("is an older copy") && refused.error.contains("accept-restore"), "\(refused)")
        }
        try await harness.start(["--await-restore"], untilReady: false)
        try await wait(for: "the comparison") {
            try await Curl.request("/readyz", socket: harness.socket).text.contains("is an older copy")
        }
        #expect(try await harness.decrypt(SharedForge.paymentToken()).code == "ledger_unavailable")
        let accepted = try await harness.paytokenctl(["ledger", "accept-restore", "--reason", "server lost"])
        #expect(accepted.status == 0, "\(accepted)")
        let fence = try await harness.restoreFence()
        #expect(try await harness.decrypt(SharedForge.paymentToken()).code == "transaction_replayed")
        #expect(try await harness.decrypt(harness.paymentToken(signedAt: fence)).status == 200)
        #expect(try await harness.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await harness.stop().status == 0)
    }

    @Test("is not ready with require_standby while the server has no standby")
    func standbyRequired() async throws {
        let harness = try await DaemonHarness(
            prepared: configuration(DaemonDatabase(), ["require_standby: true"]))
        try await harness.start(untilReady: false)
        try await wait(for: "the reason") {
            try await Curl.request("/readyz", socket: harness.socket).body.holds(
                Array("synchronous_standby_names".utf8))
        }
        #expect(try await harness.stop().status == 0)
    }

    @Test("reads the password from a file, and writes neither it nor card data to output, log, process list or rows")
    func secrecy() async throws {
        let password = "horse-battery-\(UInt32.random(in: 0 ... .max))"
        let server = try await DaemonDatabase.prepared(PostgreSQLServer())
        let database = try await DaemonDatabase(on: server)
        try await server.sql("ALTER ROLE \(DaemonDatabase.daemon) PASSWORD '\(password)'")
        try await server.require("local all \(DaemonDatabase.daemon) scram-sha-256")
        let harness = try await DaemonHarness(prepared: configuration(database, ["password_file: ledger-password"]))
        try harness.directory.write(password + "\n", to: "ledger-password")
        try await harness.start()
        #expect(try await harness.importMerchant(SharedForge.ecMerchant).status == 0)
        let paymentToken = try SharedForge.paymentToken()
        let answer = try await harness.decrypt(paymentToken, reference: "order-1")
        #expect(answer.status == 200, "\(answer)")
        var written: [(String, [UInt8])] = []
        for path in ["/metrics", "/v1/status", "/v1/keys", "/readyz"] {
            written.append((path, try await harness.admin(path).body))
        }
        let process = "/proc/\(try harness.daemon.processIdentifier)"
        for name in ["cmdline", "environ"] {
            written.append((name, Array((try? Data(contentsOf: URL(filePath: "\(process)/\(name)"))) ?? Data())))
        }
        let activity = try await server.sql("SELECT application_name, query FROM pg_stat_activity")
        #expect(activity.contains("paytokend node-1"))
        written.append(("pg_stat_activity", Array(activity.utf8)))
        for table in ["audit_record", "claim", "merchant_key", "approval", "node", "checkpoint", "audit_key"] {
            written.append((table, Array(try await database.sql("SELECT t::text FROM \(table) t").utf8)))
        }
        // The daemon also shows no password that the server refuses at the next connection.
        try harness.directory.write("wrong-\(password)\n", to: "ledger-password")
        try await server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(database.name)'")
        let refused = try await harness.decrypt(SharedForge.paymentToken())
        #expect(refused.code == "ledger_unavailable", "\(refused)")
        written.append(("a refusal", refused.body))
        try harness.directory.write("\(password)\n", to: "ledger-password")
        try await harness.waitUntilReady()
        let ended = try await harness.stop()
        #expect(ended.status == 0)
        written += [("standard output", ended.outputBytes), ("the log", ended.errorBytes)]
        let payload = try #require(try JSONValue(parsing: paymentToken.plaintext).objectValue)
        let account = try #require(payload["applicationPrimaryAccountNumber"]?.stringValue)
        for (place, bytes) in written {
            #expect(!bytes.holds(Array(password.utf8)), "the password in \(place)")
            #expect(!bytes.holds(Array(account.utf8)), "an account number in \(place)")
        }
    }
}
