import Foundation
import TestSupport
import Testing
import TokenForge

/// Daemons that claim the same node name one after the other, as after a restart or a second start. They share one host
/// and one HSM token.
@Suite struct NodeNameTests {
    private let database: DaemonDatabase
    private let hsmToken: TokenDirectory

    init() async throws {
        database = try await DaemonDatabase()
        hsmToken = try await TokenDirectory()
    }

    private var configuration: DaemonConfiguration {
        var configuration = DaemonConfiguration()
        configuration.database = database
        configuration.hsmTokens = [TokenEntry("primary", hsmToken)]
        // The ledger's timeout is so long that no test reaches it.
        configuration.ledger = ["timeout: 60s"]
        return configuration
    }

    private func fencingNumber() async throws -> Int? {
        Int(try await database.sql("SELECT fence FROM node WHERE name = 'node-1'"))
    }

    /// Starts a database session that blocks every claim until the session ends.
    private func blockClaims() async throws -> RunningProgram {
        let blocker = try database.server.session(
            "BEGIN; LOCK TABLE paytokend.claim IN SHARE ROW EXCLUSIVE MODE; SELECT pg_sleep(3600)", in: database.name)
        try await wait(for: "the lock") { try await claimLocks("ShareRowExclusiveLock") == 1 }
        return blocker
    }

    private func claimLocks(_ mode: String, granted: Bool = true) async throws -> Int? {
        Int(
            try await database.sql(
                """
                SELECT count(*) FROM pg_locks WHERE relation = 'claim'::regclass AND mode = '\(mode)'
                AND granted = \(granted)
                """))
    }

    @Test("commits and releases nothing in a daemon that is stopped before its commit while another takes its name")
    func stoppedBeforeCommit() async throws {
        let first = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        let blocker = try await blockClaims()
        async let late = first.decrypt(paymentToken, reference: "late")
        try await wait(for: "the claim") { try await claimLocks("RowExclusiveLock", granted: false) == 1 }
        let process = try first.daemon.processIdentifier
        try await stop(process: process)
        // The end of the blocking session lets the server insert the claim. The transaction stays open, because the
        // stopped daemon cannot send the commit.
        try await database.sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ShareRowExclusiveLock'")
        _ = try await blocker.result()
        try await wait(for: "the open transaction") {
            try await database.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()"
            ) == "1"
        }

        let second = try await DaemonHarness(prepared: configuration)
        try await second.start()
        #expect(try await fencingNumber() == 2)
        #expect(try await second.decrypt(SharedForge.paymentToken()).status == 200)
        kill(process, SIGCONT)
        let answer = try await late
        #expect(answer.status == 503 && answer.code == "ledger_unavailable", "\(answer)")
        #expect(answer.member("paymentData") == nil)
        #expect(try await database.sql("SELECT count(*) FROM claim") == "1")
        // The first daemon is not ready, reports the reason, and refuses every request that needs the ledger.
        try await wait(for: "the reason") {
            let ready = try await Curl.request("/readyz", socket: first.socket)
            return ready.status == 503 && ready.text.contains("Another daemon has taken this node's name")
        }
        #expect(try await first.decrypt(SharedForge.paymentToken()).code == "ledger_unavailable")
        #expect(try await first.verify(paymentToken).status == 200)
        #expect(try await first.stop().status == 0)

        #expect(try await second.decrypt(paymentToken, reference: "late").member("repeated")?.boolValue == false)
        #expect(try await fencingNumber() == 2)
        #expect(try await second.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await second.stop().status == 0)
    }

    @Test("waits until the lease ends at the next start after kill -9, and then serves")
    func killedDaemon() async throws {
        let harness = try await DaemonHarness(configuration, merchants: [SharedForge.ecMerchant])
        let paymentToken = try SharedForge.paymentToken()
        #expect(try await harness.decrypt(paymentToken, reference: "r").status == 200)
        try harness.daemon.signal(SIGKILL)
        _ = try await harness.daemon.result()
        let lease = try await database.sql("SELECT lease_until FROM node")
        try await harness.start()
        #expect(try await database.sql("SELECT clock_timestamp() > '\(lease)'") == "t")
        #expect(try await fencingNumber() == 2)
        let again = try await harness.decrypt(paymentToken, reference: "r")
        #expect(again.status == 200 && again.member("repeated")?.boolValue == true, "\(again)")
        #expect(try await harness.paytokenctl(["audit", "verify"]).status == 0)
        #expect(try await harness.stop().status == 0)
    }
}
