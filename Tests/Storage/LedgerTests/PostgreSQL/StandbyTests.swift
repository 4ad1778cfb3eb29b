import AuditChain
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// A primary whose commits wait for a synchronous standby.
private struct ReplicatedServers: Sendable {
    let primary: PostgreSQLServer
    let standby: PostgreSQLServer
    let databases: LedgerDatabases

    init() async throws {
        primary = try await PostgreSQLServer(settings: ["wal_level=replica", "max_wal_senders=5"])
        databases = try await LedgerDatabases(server: primary)
        standby = try await PostgreSQLServer(standbyOf: primary)
    }

    /// Makes commits wait for the standby from now on.
    func synchronise() async throws {
        try await primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        try await primary.sql("SELECT pg_reload_conf()")
        try await attached()
    }

    func attached() async throws {
        try await wait(for: "the synchronous standby") {
            try await primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        }
    }
}

@Suite("PostgreSQL with a synchronous standby")
struct StandbyTests {
    private static let waiting = "wait_event = 'SyncRep'"
    /// A long lease, so that no renewal waits for the standby during a test.
    private static let lease = Duration.seconds(3600)

    @Test("recognises a named standby; without one it is insecure, and can be refused")
    func named() async throws {
        let servers = try await ReplicatedServers()
        let fixture = try await PostgreSQLFixture(servers.databases) { $0.requiresStandby = true }
        #expect(fixture.ledger.insecureSettings == [.databaseStandby])
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        #expect(try await fixture.ledger.serverStatus().map(\.standbys) == .some(nil))
        try await servers.synchronise()
        try await fixture.ledger.probe()
        #expect(fixture.ledger.insecureSettings.isEmpty)
        #expect(try await fixture.ledger.serverStatus()?.standbys == "*")
        #expect(try await fixture.release(1).verdict == .released)
    }

    @Test("counts the standbys that commits wait for, for a role that may read the server's statistics")
    func counted() async throws {
        let servers = try await ReplicatedServers()
        let fixture = try await PostgreSQLFixture(servers.databases) { $0.lease = Self.lease }
        #expect(try await fixture.ledger.synchronousStandbys() == nil, "the role may not ask")
        try await servers.primary.sql("GRANT pg_read_all_stats TO \(LedgerDatabases.daemon)")
        #expect(try await fixture.ledger.synchronousStandbys() == 0, "there is one, and no commit waits for it")
        try await servers.synchronise()
        #expect(try await fixture.ledger.synchronousStandbys() == 1)
        try await servers.standby.stop()
        try await wait(for: "its absence") { try await fixture.ledger.synchronousStandbys() == 0 }
        try await servers.standby.start()
        try await wait(for: "its return") { try await fixture.ledger.synchronousStandbys() == 1 }
    }

    @Test("waits after a cancelled wait for a commit that the standby acknowledges")
    func cancelled() async throws {
        let servers = try await ReplicatedServers()
        let fixture = try await PostgreSQLFixture(servers.databases) { $0.lease = Self.lease }
        try await servers.synchronise()
        try await servers.standby.stop()
        let release = fixture.begin(1)
        try await wait(for: "the wait for the standby") { try await fixture.sessions(Self.waiting) == 1 }
        // If the wait is cancelled, the server reports success with only a warning.
        try await servers.primary.sql(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE \(Self.waiting) AND usename = 'paytokend'")
        try await wait(for: "the doubt") {
            fixture.events.all.contains { if case .failed = $0 { true } else { false } }
        }
        try await wait(for: "the second commit") { try await fixture.sessions(Self.waiting) == 1 }
        #expect(try await fixture.count("claim") == 1, "it is on the primary")
        #expect(!release.hasEnded)
        try await servers.standby.start()
        #expect(try await release.value().get() == RecordedVerdict(.released, sequence: 1))
        #expect(fixture.events.readBack == [.found])
    }

    @Test("counts a claim that no standby had at a crash only when the standby is back")
    func crashed() async throws {
        let servers = try await ReplicatedServers()
        let fixture = try await PostgreSQLFixture(servers.databases) { $0.lease = Self.lease }
        try await servers.synchronise()
        try await servers.standby.stop()
        let release = fixture.begin(1)
        try await wait(for: "the wait for the standby") { try await fixture.sessions(Self.waiting) == 1 }
        try await servers.primary.stop(.immediate)
        try await servers.primary.start()
        try await wait(for: "the second commit") { try await fixture.sessions(Self.waiting) == 1 }
        #expect(try await fixture.count("claim") == 1, "it is on the primary")
        #expect(!release.hasEnded)
        try await servers.standby.start()
        #expect(try await release.value().get() == RecordedVerdict(.released, sequence: 1))
        #expect(fixture.events.readBack == [.found])
    }

    @Test(
        "ends every call by the deadline without the standby, keeps refusals' codes, and lets two sessions wait"
    )
    func away() async throws {
        let servers = try await ReplicatedServers()
        let fixture = try await PostgreSQLFixture(servers.databases) {
            $0.timeout = .seconds(4)
            $0.lease = Self.lease
        }
        #expect(try await fixture.release(1).verdict == .released)
        try await servers.synchronise()
        try await servers.standby.stop()
        for round in 2...5 {
            let answer = try await fixture.begin(round).value()
            #expect(answer.isUnavailable, "\(answer)")
            #expect(try await fixture.sessions(Self.waiting) <= 2)
            if round == 3 {
                // Once the wait of this session is cancelled, a second session may commit and wait, but a third one may
                // not.
                try await servers.primary.sql(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE \(Self.waiting) AND usename = 'paytokend'"
                )
            }
        }
        #expect(try await fixture.begin(1, reference: nil).value().get() == RecordedVerdict(.replayed, sequence: nil))
        #expect(try await fixture.ledger.keyRecords().count == 1)
        await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        #expect(try await fixture.sessions(Self.waiting) <= 2)
        #expect(try await fixture.count("claim") == 2, "after the first in doubt nothing more was sent")
        try await servers.standby.start()
        try await wait(for: "the first probe") { (try? await fixture.ledger.probe()) != nil }
        #expect(try await fixture.release(2).verdict == .repeated)
        for number in 3...5 { #expect(try await fixture.release(number).verdict == .released) }
        let signer = CheckpointSigner()
        try await signer.seal(fixture.ledger)
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords != nil)
    }

    @Test("continues on the promoted standby with all answered releases and an unbroken chain")
    func promoted() async throws {
        let servers = try await ReplicatedServers()
        let database = try await servers.databases.make()
        let (first, second) = (servers.primary.directory.path, servers.standby.directory.path)
        let url = try PostgreSQLURL(
            "postgresql://\(LedgerDatabases.daemon)@/\(database.name)?host=\(first),\(second)&port=\(PostgreSQLServer.port)"
        )
        let ledger = try await PostgreSQLLedger.open(
            PostgreSQLLedger.Settings(url: url, node: "node-1", repeatFor: .seconds(3600), timeout: .seconds(60)))
        let fixture = try await LedgerFixture()
        try await ledger.store(LedgerFixture.record(fixture.key))
        try await servers.synchronise()
        #expect(try await ledger.serverStatus()?.timeline == 1)
        for number in 1...5 {
            let request = try fixture.request(number)
            #expect(
                try await ledger.release(request, recording: LedgerFixture.record(of: request))
                    == RecordedVerdict(.released, sequence: number))
        }
        try await servers.primary.stop(.immediate)
        await #expect(throws: LedgerFailure.self) { try await ledger.release(fixture.request(6)) }
        try await servers.standby.promote()
        // On the new primary, the node releases nothing before it has compared its chain.
        try await wait(for: "the new primary") { (try? await ledger.confirm(remembered: nil)) == .continues }
        try await ledger.probe()
        #expect(try await ledger.release(fixture.request(5, reference: nil)) == .replayed)
        let request = try fixture.request(7)
        #expect(
            try await ledger.release(request, recording: LedgerFixture.record(of: request))
                == RecordedVerdict(.released, sequence: 6))
        let signer = CheckpointSigner()
        try await signer.seal(ledger)
        #expect(try await signer.verdict(of: ledger).intactRecords == 6)
        #expect(try await ledger.serverStatus()?.timeline == 2)
        await ledger.close()
    }
}
