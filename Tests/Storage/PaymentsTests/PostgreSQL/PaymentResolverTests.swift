import DatabaseKit
import Locks
import PostgreSQLClient
import TestSupport
import Testing

@testable import Payments

@Suite("A resolver that does not answer for the name of the payments' server")
struct PaymentResolverTests {
    /// A database on a server whose name is resolved by a function that can hang.
    private struct Named {
        let database: PaymentDatabase
        let hosts: PostgreSQLHosts
        let resolver = Hang()
        private let calls = Counter()

        private final class Counter: Sendable {
            let count = Mutex(0)
        }

        init(timeout: Duration) async throws {
            let server = try await PostgreSQLServer.onTCP()
            database = try await PaymentDatabases(server: server).make()
            let url = server.url(host: "db.test", database.name, user: PaymentDatabases.gateway)
            hosts = PostgreSQLHosts(
                try PostgreSQLURL(url), passwordFile: nil, timeout: timeout, application: "tests"
            ) { [resolver, calls] _ in
                calls.count.withLock { $0 += 1 }
                resolver.pass()
                return ["127.0.0.1"]
            }
        }

        /// The number of lookups.
        var lookups: Int { calls.count.withLock { $0 } }

        /// The error of a store that gave up at its deadline.
        var late: PaymentStoreOpeningError {
            .notNow(place: hosts.url.server, reason: "no host of store.url answers in time.")
        }
    }

    @Test("does not delay a session beyond its deadline, and the next call uses the connection that comes too late")
    func session() async throws {
        let named = try await Named(timeout: .seconds(60))
        defer { named.resolver.end() }
        named.resolver.begin()
        let session = PostgreSQLPaymentSession(named.hosts)
        for _ in 1...2 {
            await #expect(throws: named.late) {
                try await onThread { () throws(PaymentStoreOpeningError) in
                    try session.open(until: .now + .milliseconds(300))
                }
            }
        }
        try await named.resolver.waitUntilBlocking()
        named.resolver.end()
        let connection = try await onThread { () throws(PaymentStoreOpeningError) in
            try session.open(until: .now + .seconds(60))
        }
        #expect(connection.facts.role == PaymentDatabases.gateway)
        #expect(named.lookups == 1)
    }

    @Test("does not delay the opening of a store beyond its time-out")
    func opening() async throws {
        let named = try await Named(timeout: .seconds(1))
        defer { named.resolver.end() }
        named.resolver.begin()
        await #expect(throws: named.late) {
            _ = try await onThread { () throws(PaymentStoreOpeningError) in try PostgreSQLPaymentStore(named.hosts) }
        }
        try await named.resolver.waitUntilBlocking()
    }

    @Test("holds none of a store's threads beyond a request's deadline, and the store recovers by itself")
    func threads() async throws {
        let named = try await Named(timeout: .seconds(3))
        defer { named.resolver.end() }
        let store = try await onThread { () throws(PaymentStoreOpeningError) in
            try PostgreSQLPaymentStore(named.hosts)
        }
        let fixture = try await StoreFixture(on: store)
        _ = try await fixture.begun(fixture.arrival("before"))
        named.resolver.begin()
        try await named.database.server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '\(PaymentDatabases.gateway)'")
        // The request's own thread reports the failure, although its resolver still hangs.
        for _ in 1...3 {
            await #expect(throws: PaymentStoreError.unavailable(reason: named.late.description)) {
                try await fixture.begun(fixture.arrival("meanwhile"))
            }
        }
        #expect((1...3).contains(named.resolver.held))
        named.resolver.end()
        try await wait(for: "the store to be back") { (try? await store.probe()) != nil }
        _ = try await fixture.begun(fixture.arrival("afterwards"))
        #expect(try await named.database.sql("SELECT count(*) FROM payment") == "2")
        await store.close()
    }
}
