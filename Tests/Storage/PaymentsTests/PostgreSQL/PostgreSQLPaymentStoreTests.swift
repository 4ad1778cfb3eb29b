import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

@Suite struct PostgreSQLPaymentStoreTests {
    /// A store that connects to its server through a proxy, which simulates network faults.
    private struct Proxied {
        let fixture: StoreFixture
        let database: PaymentDatabase
        let proxy: PostgreSQLProxy
        let store: PostgreSQLPaymentStore

        init(timeout: Duration = .seconds(60)) async throws {
            database = try await PaymentDatabases.shared.make()
            proxy = try await PostgreSQLProxy(to: database.server)
            let url = try PostgreSQLURL(proxy.url(database.name, user: PaymentDatabases.gateway))
            store = try await PaymentDatabase.opened(url, timeout: timeout)
            fixture = try await StoreFixture(on: store)
        }
    }

    @Test("lets one of thirty simultaneous requests at two gateways use a payment token")
    func thirtyAtTwo() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixtures = [
            try await StoreFixture(on: database.store()), try await StoreFixture(on: database.store()),
        ]
        let begun = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<30 {
                let fixture = fixtures[number % 2]
                group.addTask {
                    if case .begun = try await fixture.store.begin(fixture.arrival(), at: fixture.now) { return true }
                    return false
                }
            }
            return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(begun == 1)
        #expect(try await database.sql("SELECT count(*) FROM payment_change") == "1")
    }

    @Test("lets one of thirty clients at two gateways claim a transaction, and refuses the others")
    func claimsAtTwo() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixtures = [
            try await StoreFixture(on: database.store()), try await StoreFixture(on: database.store()),
        ]
        var begun: [Payment] = []
        for number in 0..<30 {
            begun.append(try await fixtures[number % 2].begun(fixtures[0].arrival(client: "client \(number)")).0)
        }
        let payments = begun
        let claims = try await withThrowingTaskGroup(of: PaymentClaim.self) { group in
            for (number, payment) in payments.enumerated() {
                let fixture = fixtures[number % 2]
                group.addTask {
                    try await fixture.store.claim(
                        payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(claims.filter { $0 == .usedBefore }.count == 29)
        #expect(try await database.sql("SELECT count(*) FROM payment WHERE state = 'refused'") == "29")
        #expect(try await database.sql("SELECT count(*) FROM payment WHERE state = 'submitting'") == "1")
    }

    @Test("marks a stopped gateway's submission as pending exactly once, at one of the other gateways")
    func takeOver() async throws {
        let database = try await PaymentDatabases.shared.make()
        let stopped = try await StoreFixture(on: database.store())
        let submitting = try await stopped.submitting(stopped.arrival())
        await stopped.store.close()
        // Other gateways leave the payment to its owner until its deadline, plus five seconds for clocks that differ.
        let stores = [try await database.store(), try await database.store()]
        #expect(try await stores[0].takeOverAbandoned(at: stopped.now.addingTimeInterval(30)) == 0)
        let later = stopped.now.addingTimeInterval(31)
        async let one = stores[0].takeOverAbandoned(at: later)
        async let other = stores[1].takeOverAbandoned(at: later)
        #expect(try await one + other == 1)
        let pending = try await stores[1].payment(transaction: stopped.transaction().identifier)
        #expect(pending?.state == .pending && pending?.attempt.identifier == submitting.attempt.identifier)
    }

    @Test("reports a commit whose acknowledgement was lost as in doubt, and lets the same attempt end the payment")
    func lostAcknowledgement() async throws {
        let proxied = try await Proxied()
        let (fixture, store) = (proxied.fixture, proxied.store)
        let (payment, _) = try await fixture.begun(fixture.arrival())
        proxied.proxy.fault = .loseAcknowledgement(then: .none)
        await #expect {
            try await store.claim(payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        } throws: {
            if case PaymentStoreError.inDoubt = $0 { true } else { false }
        }
        #expect(proxied.proxy.cuts == 1)
        #expect(try await proxied.database.sql("SELECT state FROM payment") == "submitting")
        let ended = try await store.end(
            payment, as: .notSent, PaymentOutcome(reason: "store_unavailable"), at: fixture.now)
        #expect(ended.state == .notSent)
    }

    @Test("reports a commit that never reached the server as in doubt, and stores no change")
    func lostCommit() async throws {
        let proxied = try await Proxied()
        let (fixture, store) = (proxied.fixture, proxied.store)
        let (payment, _) = try await fixture.begun(fixture.arrival())
        proxied.proxy.fault = .loseCommit(then: .none)
        await #expect {
            try await store.claim(payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        } throws: {
            if case PaymentStoreError.inDoubt = $0 { true } else { false }
        }
        #expect(proxied.proxy.cuts == 1)
        #expect(try await proxied.database.sql("SELECT state FROM payment") == "received")
        guard
            case .claimed = try await store.claim(
                payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        else { throw StoreFixture.NotBegun() }
    }

    @Test("waits for a silent server until the time-out, and uses the server again once it answers")
    func silence() async throws {
        let proxied = try await Proxied(timeout: .seconds(2))
        let (fixture, store) = (proxied.fixture, proxied.store)
        _ = try await fixture.begun(fixture.arrival("before"))
        proxied.proxy.fault = .silence
        await #expect(throws: PaymentStoreError.self) { try await fixture.begun(fixture.arrival("meanwhile")) }
        await #expect(throws: PaymentStoreError.self) { try await store.payments(PaymentFilter()) }
        await #expect(throws: PaymentStoreError.self) { try await store.probe() }
        proxied.proxy.fault = .none
        try await wait(for: "the store to be back") { (try? await store.probe()) != nil }
        _ = try await fixture.begun(fixture.arrival("afterwards"))
    }

    @Test("refuses requests at once when the queue is full, and does not execute one that waited too long")
    func fullQueue() async throws {
        let proxied = try await Proxied(timeout: .seconds(5))
        let fixture = proxied.fixture
        proxied.proxy.fault = .silence
        let answers = await withTaskGroup(of: PaymentStoreError?.self) { group in
            for number in 0..<PostgreSQLPaymentSessions.capacity + PostgreSQLPaymentSessions.count + 100 {
                group.addTask {
                    do throws(PaymentStoreError) {
                        _ = try await proxied.store.begin(fixture.arrival("token \(number)"), at: fixture.now)
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.contains(.overloaded))
        #expect(answers.filter { $0 == nil }.isEmpty)
        #expect(try await proxied.database.sql("SELECT count(*) FROM payment") == "0")
    }

    @Test("serves every request after an administrator or a restart has ended the sessions")
    func endedSessions() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        try await Self.endAllSessions(of: fixture, in: database)
        _ = try await fixture.begun(fixture.arrival())
        try await Self.endAllSessions(of: fixture, in: database)
        #expect(try await fixture.store.payments(PaymentFilter()).count == 1)
    }

    @Test("serves a request whose session ended before its first use")
    func unusedSession() async throws {
        let database = try await PaymentDatabases.shared.make()
        let session = PostgreSQLPaymentSession(try database.hosts())
        let deadline = ContinuousClock.now + .seconds(60)
        let first = try session.open(until: deadline)
        try await database.server.sql("SELECT pg_terminate_backend(\(first.serverProcess))")
        let results = try session.reading(until: deadline) {
            try $0.exchange([PostgreSQLStatement("SELECT 1")], until: deadline)
        }
        #expect(try results.first?.rows.first?.integer(0) == 1)
    }

    @Test("serves from the second host of the URL while the first one is silent", arguments: SilentPort.Kind.allCases)
    func silentHost(kind: SilentPort.Kind) async throws {
        let silent = try await SilentPort(kind)
        let server = try await PostgreSQLServer.onTCP()
        let database = try await PaymentDatabases(server: server).make()
        let hosts = "127.0.0.1:\(silent.port),127.0.0.1:\(server.port)"
        let store = try await PaymentDatabase.opened(
            PostgreSQLURL("postgresql://\(PaymentDatabases.gateway)@\(hosts)/\(database.name)"), timeout: .seconds(6))
        let fixture = try await StoreFixture(on: store)
        _ = try await fixture.begun(fixture.arrival())
        // New sessions must reach the second host too.
        try await Self.endAllSessions(of: fixture, in: database)
        #expect(try await fixture.store.payments(PaymentFilter()).count == 1)
    }

    /// Uses every session of the store once, and then ends all of them. An unused session would not fail, and would
    /// hide how the store treats ended sessions.
    private static func endAllSessions(of fixture: StoreFixture, in database: PaymentDatabase) async throws {
        let mine =
            "FROM pg_stat_activity WHERE datname = '\(database.name)' AND usename = '\(PaymentDatabases.gateway)'"
        try await wait(for: "all sessions in use") {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<PostgreSQLPaymentSessions.count * 4 {
                    group.addTask { _ = try await fixture.store.pending() }
                }
                try await group.waitForAll()
            }
            return try await database.server.sql("SELECT count(*) \(mine)") == "\(PostgreSQLPaymentSessions.count)"
        }
        try await database.server.sql("SELECT pg_terminate_backend(pid) \(mine)")
        try await wait(for: "the sessions' end") { try await database.server.sql("SELECT count(*) \(mine)") == "0" }
    }

    @Test("prevents a gateway's login from deleting rows, rewriting history or names, and altering tables")
    func rights() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        _ = try await fixture.submitting(fixture.arrival())
        for statement in [
            "DELETE FROM payment", "DELETE FROM payment_change", "TRUNCATE payment", "TRUNCATE payment_change",
            "UPDATE payment_change SET reason = 'x'", "UPDATE payment SET client = 'x'",
            "UPDATE payment SET token_digest = attempt", "UPDATE payment SET received_at = 0",
            "UPDATE payment_store SET schema_version = 2", "INSERT INTO payment_store VALUES (false, 1)",
            "ALTER TABLE payment DISABLE TRIGGER keep_payment", "DROP TABLE payment", "CREATE TABLE other (a int)",
            "UPDATE payment SET state = 'received'", "UPDATE payment SET transaction_id = NULL",
        ] {
            await #expect(throws: HarnessFailure.self, "\(statement)") {
                try await database.sql(statement, as: PaymentDatabases.gateway)
            }
        }
        #expect(try await database.sql("SELECT state FROM payment") == "submitting")
    }

    @Test("prevents even the tables' owner from undoing a submission or deleting history by mistake")
    func triggers() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        let submitting = try await fixture.submitting(fixture.arrival())
        _ = try await fixture.store.storeOutcome(submitting, as: .pending, PaymentOutcome(), at: fixture.now)
        for statement in [
            "DELETE FROM payment", "TRUNCATE payment", "UPDATE payment SET state = 'received'",
            "UPDATE payment SET state = 'not_sent'", "UPDATE payment SET transaction_id = NULL",
            "DELETE FROM payment_change", "TRUNCATE payment_change", "UPDATE payment_change SET reason = 'x'",
        ] {
            await #expect(throws: HarnessFailure.self, "\(statement)") {
                try await database.sql(statement, as: PaymentDatabases.owner)
            }
        }
    }

    @Test("reads at most 200 rows of a payment token's history when an attempt begins")
    func longHistory() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        _ = try await fixture.begun(fixture.arrival())
        try await database.sql(
            """
            INSERT INTO payment_change (client, token_digest, state, attempt, at, by)
            SELECT client, token_digest, CASE n % 2 WHEN 0 THEN 'received' ELSE 'refused' END, attempt, at, by
            FROM payment_change, generate_series(1, 5000) AS n;
            ANALYZE
            """)
        let digest = fixture.arrival().key.tokenDigest.map { String(format: "%02x", $0) }.joined()
        // The payment is stored under the digest of the normal form, then under that of the client's spelling.
        for digests in ["'\\x\(digest)', NULL, NULL", "'\\x00', NULL, '\\x\(digest)'"] {
            let plan = try await database.sql(
                """
                PREPARE beginning(text, bytea, bytea, bytea) AS
                \(PostgreSQLPaymentStore.unsentAttempts(at: fixture.arrival()).sql);
                EXPLAIN (ANALYZE, TIMING OFF) EXECUTE beginning('shop', \(digests))
                """)
            let read = plan.matches(of: /actual rows=(\d+)|Rows Removed by Filter: (\d+)/)
                .compactMap { ($0.1 ?? $0.2).flatMap { Int($0) } }
            #expect(!read.isEmpty && read.allSatisfy { $0 <= 200 }, "\(plan)")
        }
    }

    @Test(
        "prunes old payments in batches for a gateway's login, and ignores its temporary payment table"
    )
    func prune() async throws {
        let database = try await PaymentDatabases.shared.make()
        let fixture = try await StoreFixture(on: database.store())
        let old = Date(timeIntervalSinceNow: -8 * 86_400)
        for number in 0..<3 { _ = try await fixture.begun(fixture.arrival("token \(number)"), at: old) }
        let counts = try await database.sql(
            """
            CREATE TEMP TABLE payment (client text, token_digest bytea, state text, transaction_id bytea, changed_at bigint);
            SELECT prune_payments(0); SELECT prune_payments(2); SELECT prune_payments(NULL); SELECT prune_payments(2)
            """, as: PaymentDatabases.gateway)
        #expect(counts.split(separator: "\n").suffix(4) == ["0", "2", "0", "1"])
        #expect(try await database.sql("SELECT count(*) FROM payment_change") == "0")
        // Even the owner cannot remove a recent payment, or the history of an existing one.
        _ = try await fixture.begun(fixture.arrival(), at: Date())
        for statement in ["DELETE FROM payment", "DELETE FROM payment_change"] {
            await #expect(throws: HarnessFailure.self, "\(statement)") {
                try await database.sql(statement, as: PaymentDatabases.owner)
            }
        }
    }
}
