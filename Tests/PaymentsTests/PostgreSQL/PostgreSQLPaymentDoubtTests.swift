import Foundation
import PostgreSQLClient
import Synchronization
import TestSupport
import Testing

@testable import Payments

@Suite("Commits of payments that PostgreSQL answers late, with a warning, or not at all")
struct PostgreSQLPaymentDoubtTests {
    /// A server of a test's own, whose commits can be made to wait for a standby that never comes.
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

        /// From when this returns on, no commit is answered.
        func holdCommits() async throws {
            try await server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try await server.sql("SELECT pg_reload_conf()")
            // Sessions begin to wait when the checkpointer has read the setting, which nothing shows but one that waits.
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

    @Test("until a commit that was given up has its end nobody goes on with the payment; then its own attempt ends it")
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
        // The server keeps the row locked for the session that the gateway gave up, and shows nobody what it wrote.
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
        // Nothing was sent, so that the other gateway may try, and tells paytokend whose attempt came to nothing.
        #expect(try await other.begun(other.arrival(), at: later).after == [payment.attempt.identifier])
    }

    @Test("a commit whose wait for a standby somebody ended is in doubt: only the one server is sure to have it")
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

    /// What a claim was answered, by the token's name.
    private struct Answers {
        var claimed: Set<String> = []
        var unavailable: Set<String> = []
        var others: [any Error] = []
    }

    /// Claims payments until it is told to stop.
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

    @Test("a server that crashes and is back, under load: what was claimed is there, and what was unavailable is not")
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

    @Test("a wrong password is a matter of the configuration, and is shown nowhere")
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
