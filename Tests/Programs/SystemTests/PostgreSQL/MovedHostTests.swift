import Foundation
import StrictJSON
import TestSupport
import Testing
import TokenForge

/// `paytokenctl ledger move` with the real programs. A host with a ledger file joins a database that another host uses.
@Suite struct MovedHostTests {
    private let database: DaemonDatabase
    private let host: DaemonHarness

    /// Starts a host with a ledger file and both merchants' keys.
    init() async throws {
        database = try await DaemonDatabase()
        host = try await DaemonHarness(
            Self.configuration("host-1"), merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
    }

    private static func configuration(_ node: String) -> DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.ledger = ["node: \(node)"]
        configuration.access = Set([geteuid(), 0]).sorted().map {
            "{ name: checkout-\($0), user: \"\($0)\", roles: [decrypt, monitor, audit, admin] }"
        }
        return configuration
    }

    private var ownerURL: String { database.server.url(database.name, user: DaemonDatabase.owner) }

    private var arguments: [String] {
        ["ledger", "move", "--from", "sqlite:\(host.directory.path("ledger.sqlite"))", "--to", ownerURL]
    }

    private func move(_ more: String...) async throws -> ProgramResult {
        try await Program.run(Program.built("paytokenctl"), arguments + more)
    }

    /// Configures the host's daemon to use the database at its next start.
    private func useDatabase() throws {
        let yaml = try String(contentsOfFile: host.configurationFile, encoding: .utf8)
        try host.directory.write(
            yaml.replacing("url: sqlite:ledger.sqlite", with: "url: \"\(database.url)\""), to: "paytokend.yaml")
    }

    private func export(of daemon: DaemonHarness) async throws -> String {
        let exported = try await daemon.paytokenctl(["audit", "export"])
        try #require(exported.status == 0, "\(exported)")
        return exported.output
    }

    @Test(
        "moves a host into a database in use, with its records, all claims, and the stricter key states"
    )
    func joinsDatabase() async throws {
        var configuration = Self.configuration("host-2")
        configuration.database = database
        let other = try await DaemonHarness(
            configuration, merchants: [SharedForge.ecMerchant, SharedForge.rsaMerchant])
        // Hosts with separate ledgers can both release the same payment token.
        let both = try SharedForge.paymentToken()
        let mine = try SharedForge.paymentToken(for: SharedForge.rsaMerchant.merchant)
        let theirs = try SharedForge.paymentToken()
        for daemon in [host, other] {
            #expect(try await daemon.decrypt(both, reference: "order-1").status == 200)
        }
        #expect(try await host.decrypt(mine, reference: "order-2").status == 200)
        #expect(try await other.decrypt(theirs, reference: "order-3").status == 200)
        let suspended = try await other.paytokenctl(
            ["key", "suspend", SharedForge.ecMerchant.hex, "--reason", "laptop stolen"])
        #expect(suspended.status == 0, "\(suspended)")
        let before = try await export(of: host)

        let running = try await move()
        #expect(running.status == 75 && running.error.contains("Another process uses the ledger"), "\(running)")
        #expect(try await host.stop().status == 0)
        let planned = try await move("--dry-run", "--output", "json")
        let plan = try JSONValue(parsing: planned.outputBytes)
        #expect(plan.string("status") == "possible" && planned.error.contains("Nothing was changed"), "\(planned)")
        #expect(plan.objectValue?["differingKeys"]?.arrayValue?.first?.string("becomes") == "suspended", "\(planned)")
        let moved = try await move()
        #expect(moved.status == 0 && moved.output.contains("Released on both sides"), "\(moved)")
        #expect(moved.error.contains("ledger.node: host-1"), "\(moved)")

        // A daemon refuses to start with the moved ledger file, and names the database.
        let old = try await Program.run(Program.built("paytokend"), ["--config", host.configurationFile])
        #expect(old.status == 78 && old.error.contains("was moved to "), "\(old)")
        #expect(old.error.contains("/\(database.name)") && !old.error.contains(DaemonDatabase.owner), "\(old)")

        try useDatabase()
        try await host.start()
        #expect(try await host.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await export(of: host).hasPrefix(before), "the same lines, and more behind them")
        for daemon in [host, other] {
            #expect(try await daemon.decrypt(SharedForge.paymentToken()).code == "key_not_active")
            #expect(try await daemon.decrypt(mine).code == "transaction_replayed")
        }
        let repeated = try await host.decrypt(mine, reference: "order-2")
        #expect(repeated.status == 200 && repeated.text.contains("\"repeated\":true"), "\(repeated)")
        for daemon in [host, other] {
            let resumed = try await daemon.paytokenctl(
                ["key", "resume", SharedForge.ecMerchant.hex, "--reason", "found again"])
            #expect(resumed.status == (daemon === host ? 0 : 1), "\(resumed)")
            #expect(try await daemon.decrypt(both, reference: "order-1").code == "transaction_replayed")
        }
        #expect(try await host.decrypt(theirs).code == "transaction_replayed")
        #expect(try await host.decrypt(SharedForge.paymentToken()).status == 200)
        let again = try await move("--output", "json")
        #expect(again.status == 0, "\(again)")
        for daemon in [host, other] {
            #expect(try await daemon.paytokenctl(["audit", "verify"]).status == 0)
            #expect(try await daemon.stop().status == 0)
        }
    }

    @Test("completes after repeated kills, and copies each record once")
    func killedMoves() async throws {
        let released = try SharedForge.paymentToken()
        #expect(try await host.decrypt(released, reference: "order-1").status == 200)
        #expect(try await host.stop().status == 0)
        let filled = try await Program.run(
            Program.built("ledger-filler"),
            [
                host.directory.path("ledger.sqlite"), "5000", SoftHSM.libraryPath, "paytokend",
                host.directory.path("pin"),
            ], environment: ["SOFTHSM2_CONF": host.directory.path("softhsm2.conf")])
        try #require(filled.status == 0, "\(filled)")
        var random = SystemRandomNumberGenerator()
        var statuses: [Int32] = []
        for _ in 0..<20 where statuses.last != 0 {
            let program = try RunningProgram(Program.built("paytokenctl"), arguments)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0..<3000, using: &random)))
            program.signal(SIGKILL)
            statuses.append(try await program.result().status)
        }
        let completed = try await move()
        #expect(completed.status == 0, "after \(statuses): \(completed)")
        try useDatabase()
        try await host.start()
        #expect(try await host.decrypt(released).code == "transaction_replayed")
        #expect(try await host.decrypt(released, reference: "order-1").status == 200)
        let verified = try await host.paytokenctl(["audit", "verify"])
        #expect(verified.status == 0, "\(verified)")
        let counted = try await database.sql("SELECT count(*) = max(sequence), count(*) > 5000 FROM audit_record")
        #expect(counted == "t|t", "after \(statuses)")
        #expect(try await host.stop().status == 0)
    }

    @Test("reports each fault with the exit status for it, and changes nothing")
    func refusedMoves() async throws {
        #expect(try await host.stop().status == 0)
        let paytokenctl = try Program.built("paytokenctl")
        let file = "sqlite:\(host.directory.path("ledger.sqlite"))"
        for (from, to, status, words) in [
            ("ledger.sqlite", ownerURL, 64, "--from is sqlite: and a path"),
            (file, "mysql://x", 64, "must begin with postgresql://"),
            (file, "postgresql://owner:hunter2@db1/x", 64, "must not contain a password"),
            ("sqlite:\(host.directory.path("gone"))", ownerURL, 66, "There is no file"),
            (file, "postgresql://owner@/x?host=/nowhere", 75, "cannot be opened now"),
            (file, database.url, 78, "belongs to another role"),
            ("sqlite:\(host.configurationFile)", ownerURL, 78, "is not a ledger of paytokend"),
        ] as [(String, String, Int32, String)] {
            let result = try await Program.run(paytokenctl, ["ledger", "move", "--from", from, "--to", to])
            #expect(result.status == status && result.error.contains(words), "\(from) \(to): \(result)")
            #expect(!result.error.contains("hunter2") && result.output == "", "\(result)")
        }
        let given = try await move("--give-up", "--output", "json")
        #expect(given.status == 0 && given.output.contains("given_up"), "\(given)")
        try await host.start()
        #expect(try await host.decrypt(SharedForge.paymentToken()).status == 200)
        #expect(try await host.stop().status == 0)
    }
}
