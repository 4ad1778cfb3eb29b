import Foundation
import Locks
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

@Suite("Commits of payments that PostgreSQL answers late, with a warning, or not at all")
struct PostgreSQLPaymentDoubtTests {
    /// A server for one test, which can make commits wait for a standby that does not exist.
    private struct Waiting {
        let server: PostgreSQLServer
        let database: PaymentDatabase

        init() async throws {
            server = try await PostgreSQLServer()
            database = try await PaymentDatabases(server: server).make()
        }

        func fixture(timeout: Duration) async throws -> StoreFixture {
            try await StoreFixture(on: PaymentDatabase.opened(database.url(), timeout: timeout))
        }

        /// Makes all later commits wait for the standby, and returns when the first of them does.
        func holdCommits() async throws {
            try await server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try await server.sql("SELECT pg_reload_conf()")
            // Sessions wait only after the checkpointer has read the setting. Nothing reports this, so probes commit
            // until one of them waits.
            var probes: [RunningProgram] = []
            try await wait(for: "a commit that waits") {
                probes.append(try server.session("CREATE TABLE probe_\(probes.count) ()", in: database.name))
                return try await isWaiting(PostgreSQLServer.superuser)
            }
        }

        func isWaiting(_ role: String) async throws -> Bool {
            try await server.sql(
                """
                SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = '\(role)' AND wait_event = 'SyncRep')
                """) == "t"
        }

        /// The number of the gateway's sessions that wait for the standby.
        func waitingSessions() async throws -> String {
            try await server.sql(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE usename = '\(PaymentDatabases.gateway)' AND wait_event = 'SyncRep'
                """)
        }

        func releaseCommits() async throws {
            try await server.sql("ALTER SYSTEM RESET synchronous_standby_names")
            try await server.sql("SELECT pg_reload_conf()")
        }
    }

    private func isInDoubt(_ error: any Error) -> Bool {
        if case PaymentStoreError.inDoubt = error { true } else { false }
    }

    private func isUnavailable(_ error: any Error) -> Bool {
        if case PaymentStoreError.unavailable = error { true } else { false }
    }

    @Test("refuses another attempt while a timed-out commit of the first one is still open on the server")
    func lateCommit() async throws {
        let waiting = try await Waiting()
        let (mine, other) = (
            try await waiting.fixture(timeout: .seconds(2)), try await waiting.fixture(timeout: .seconds(2))
        )
        let (payment, _) = try await mine.begun(mine.arrival())
        try await waiting.holdCommits()
        await #expect {
            try await mine.store.claim(payment, mine.transaction(), as: .submitting, nil, at: mine.now)
        } throws: {
            isInDoubt($0)
        }
        // The abandoned session still holds the row's lock, and no other session sees its changes.
        #expect(try await waiting.isWaiting(PaymentDatabases.gateway))
        #expect(try await waiting.database.sql("SELECT state FROM payment") == "received")
        let later = mine.now.addingTimeInterval(31)
        await #expect { try await other.begun(other.arrival(), at: later) } throws: { isUnavailable($0) }
        await #expect {
            try await mine.store.end(payment, as: .notSent, PaymentOutcome(reason: "store_unavailable"), at: mine.now)
        } throws: {
            isUnavailable($0)
        }
        try await waiting.releaseCommits()
        try await wait(for: "the commit") {
            try await waiting.database.sql("SELECT state FROM payment") == "submitting"
        }
        let ended = try await mine.store.end(
            payment, as: .notSent, PaymentOutcome(reason: "store_unavailable"), at: mine.now)
        #expect(ended.state == .notSent)
        #expect(
            try await mine.store.history(of: payment.key).map(\.state) == [
                .received, .decrypted, .submitting, .notSent,
            ])
        // The first attempt sent nothing, so the other gateway may begin another one. Its request to paytokend lists
        // the first attempt as harmless.
        #expect(try await other.begun(other.arrival(), at: later).after == [payment.attempt.identifier])
    }

    @Test("adds no waiting session on the server while commits are in doubt, and still answers reads")
    func leftSessions() async throws {
        let waiting = try await Waiting()
        let fixture = try await waiting.fixture(timeout: .seconds(1))
        let known = try await fixture.submitting(fixture.arrival("known"))
        try await waiting.holdCommits()
        await #expect { try await fixture.begun(fixture.arrival("0")) } throws: { isInDoubt($0) }
        for number in 1...6 {
            await #expect { try await fixture.begun(fixture.arrival("\(number)")) } throws: {
                isInDoubt($0) || isUnavailable($0)
            }
            // Reads still succeed: a lookup by transaction, and a request for a payment whose outcome is known.
            #expect(try await fixture.store.payment(transaction: known.transaction?.identifier ?? []) == known)
            let beginning = try await fixture.store.begin(fixture.arrival("known"), at: fixture.now)
            #expect([.underWay(known), .known(known)].contains(beginning))
        }
        // At most two sessions wait: that of the first change, and one probe.
        #expect(["1", "2"].contains(try await waiting.waitingSessions()))
        try await waiting.releaseCommits()
        try await wait(for: "the end of the doubt") { (try? await fixture.begun(fixture.arrival("last"))) != nil }
        #expect(try await waiting.waitingSessions() == "0")
    }

    @Test("reports by a probe that commits fail without the standby, and leaves at most one waiting session")
    func probe() async throws {
        let waiting = try await Waiting()
        let fixture = try await waiting.fixture(timeout: .seconds(1))
        try await fixture.store.probe()
        let before = try await waiting.database.sql("SELECT count(*) FROM payment")
        try await waiting.holdCommits()
        for _ in 0..<3 {
            await #expect { try await fixture.store.probe() } throws: { isInDoubt($0) || isUnavailable($0) }
        }
        #expect(try await waiting.waitingSessions() == "1")
        try await waiting.releaseCommits()
        try await wait(for: "the probe") { (try? await fixture.store.probe()) != nil }
        #expect(try await waiting.database.sql("SELECT count(*) FROM payment") == before, "no row is written")
    }

    @Test(
        "waits at each commit for the standby's disk even if the role's setting is weaker, and keeps a stricter one",
        arguments: [
            ("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply"),
        ])
    func synchronousCommit(ofRole: String, ofSession: String) async throws {
        let database = try await PaymentDatabases.shared.make()
        try await database.server.sql(
            "ALTER ROLE \(PaymentDatabases.gateway) IN DATABASE \(database.name) SET synchronous_commit = \(ofRole)")
        let session = PostgreSQLPaymentSession(try database.hosts())
        let connection = try session.open(until: .now + .seconds(60))
        let shown = try connection.exchange(
            [PostgreSQLStatement("SHOW synchronous_commit")], until: .now + .seconds(60))
        #expect(try shown[0].rows.first?.text(0) == ofSession)
    }

    @Test("skips and counts a row that this version cannot read, and processes the other payments")
    func unreadable() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        var payments: [Payment] = []
        for name in ["a", "b", "c"] {
            payments.append(try await fixture.submitting(fixture.arrival(name, deadline: 1), name))
        }
        payments.sort { $0.key.tokenDigest.lexicographicallyPrecedes($1.key.tokenDigest) }
        let digest = payments[1].key.tokenDigest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            .joined()
        let row = "WHERE token_digest = '\\x\(digest)'"
        try await database.sql("UPDATE payment SET currency = 'of a later version' \(row)")
        let (store, later) = (fixture.store, fixture.now.addingTimeInterval(3600))
        #expect(try await store.takeOverAbandoned(at: later) == 2)
        #expect(store.unreadablePayments == 1)
        // An unreadable row makes the page shorter than the limit; the list still continues after it.
        let filter = PaymentFilter(states: [.pending, .submitting], limit: 2, oldestFirst: true)
        #expect(try await store.payments(filter).map(\.key) == [payments[0].key, payments[2].key])
        await #expect(throws: PaymentStoreError.self) {
            try await store.payment(transaction: payments[1].transaction?.identifier ?? [])
        }
        try await database.sql("UPDATE payment SET currency = 'USD' \(row)")
        #expect(try await store.takeOverAbandoned(at: later) == 1)
        #expect(store.unreadablePayments == 0)
    }

    @Test("reports a commit as in doubt if its wait for the standby was cancelled, because the standby may lack it")
    func warned() async throws {
        let waiting = try await Waiting()
        let fixture = try await waiting.fixture(timeout: .seconds(60))
        let (payment, _) = try await fixture.begun(fixture.arrival())
        try await waiting.holdCommits()
        let transaction = try fixture.transaction()
        let claim = Task {
            try await fixture.store.claim(payment, transaction, as: .submitting, nil, at: fixture.now)
        }
        try await wait(for: "the claim's commit") { try await waiting.isWaiting(PaymentDatabases.gateway) }
        try await waiting.server.sql(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = '\(PaymentDatabases.gateway)' "
                + "AND wait_event = 'SyncRep'")
        await #expect { try await claim.value } throws: { isInDoubt($0) }
        #expect(try await waiting.database.sql("SELECT state FROM payment") == "submitting")
        try await waiting.releaseCommits()
        let ended = try await fixture.store.end(
            payment, as: .notSent, PaymentOutcome(reason: "store_unavailable"), at: fixture.now)
        #expect(ended.state == .notSent)
    }

    /// The names of payment tokens, grouped by the result of their claims.
    private struct Answers {
        var claimed: Set<String> = []
        var unavailable: Set<String> = []
        var others: [any Error] = []
    }

    /// Claims payments until it is stopped.
    private final class Load: Sendable {
        let answers = Mutex(Answers())
        private let isOver = Mutex(false)

        var claimed: Int { answers.withLock { $0.claimed.count } }

        func end() { isOver.withLock { $0 = true } }

        func run(_ fixture: StoreFixture, worker: Int) async throws {
            for number in 0... {
                if isOver.withLock({ $0 }) { return }
                let name = "\(worker)-\(number)"
                let transaction = try fixture.transaction(name)
                guard let payment = try? await fixture.begun(fixture.arrival(name)).0 else { continue }
                do throws(PaymentStoreError) {
                    let claim = try await fixture.store.claim(
                        payment, transaction, as: .submitting, nil, at: fixture.now)
                    if case .claimed = claim { answers.withLock { _ = $0.claimed.insert(name) } }
                } catch {
                    answers.withLock { answers in
                        switch error {
                        case .unavailable: answers.unavailable.insert(name)
                        case .inDoubt: break
                        default: answers.others.append(error)
                        }
                    }
                }
            }
        }
    }

    @Test("keeps claimed payments, and none whose claim was refused, when the server crashes under load")
    func crashesUnderLoad() async throws {
        let server = try await PostgreSQLServer()
        let database = try await PaymentDatabases(server: server).make()
        let fixtures = [try await StoreFixture(on: database.store()), try await StoreFixture(on: database.store())]
        let load = Load()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                let fixture = fixtures[worker % 2]
                group.addTask { try await load.run(fixture, worker: worker) }
            }
            for _ in 0..<3 {
                let before = load.claimed
                try await wait(for: "claims") { load.claimed > before + 50 }
                try await server.stop(.immediate)
                try await server.start()
            }
            let before = load.claimed
            try await wait(for: "claims after the last crash") { load.claimed > before + 50 }
            load.end()
            try await group.waitForAll()
        }
        let found = load.answers.withLock { $0 }
        #expect(found.others.isEmpty)
        for name in found.claimed {
            let payment = try await fixtures[0].store.payment(transaction: StoreFixture.digest(name))
            #expect(payment?.state == .submitting)
        }
        for name in found.unavailable {
            #expect(try await fixtures[0].store.payment(transaction: StoreFixture.digest(name)) == nil)
        }
    }

    @Test("reports a wrong password as a configuration error without printing the password")
    func password() async throws {
        let server = try await PostgreSQLServer()
        let database = try await PaymentDatabases(server: server).make()
        try await server.sql("ALTER ROLE \(PaymentDatabases.gateway) PASSWORD 'correct horse'")
        try await server.require("local all \(PaymentDatabases.gateway) scram-sha-256")
        let directory = try FreshDirectory()
        let right = try directory.write("correct horse\n", to: "right")
        let wrong = try directory.write("battery staple\n", to: "wrong")
        let url = try database.url()
        try await PaymentDatabase.opened(url, passwordFile: right).close()
        for file in [wrong, directory.path("none")] {
            let error = await #expect(throws: PaymentStoreOpeningError.self) {
                try await PaymentDatabase.opened(url, passwordFile: file)
            }
            guard case .cannotOpen? = error else {
                Issue.record("\(String(describing: error))")
                continue
            }
            #expect(error?.description.contains("staple") == false)
        }
    }
}
