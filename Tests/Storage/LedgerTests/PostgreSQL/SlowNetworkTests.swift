import DatabaseKit
import Ledger
import TestSupport
import Testing

@testable import PostgreSQLClient
@testable import PostgreSQLLedger

@Suite("Reads of a PostgreSQL ledger over a slow network")
struct SlowNetworkTests {
    @Test("keep their session when they have waited so long for each other that their callers leave")
    func waiting() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        let proxy = try await PostgreSQLProxy(to: server, delay: 250)
        let hosts = PostgreSQLHosts(
            try PostgreSQLURL(proxy.url(fixture.database.name, user: LedgerDatabases.daemon)), passwordFile: nil,
            timeout: .seconds(3), application: "tests")
        let reader = PostgreSQLReader(
            LedgerSession(hosts, settings: []), label: "tests", deadlines: LedgerDeadlines(timeout: .seconds(3)))
        func serverProcess() async throws -> Int64? {
            try await reader.read { try $0.rows("SELECT pg_backend_pid()::bigint").first?.integer(0) }
        }
        let first = try await serverProcess()
        // One after the other they take twice the time-out, so one is under way when its caller leaves.
        let results = await withTaskGroup(of: Int64?.self, returning: [Int64?].self) { group in
            for _ in 0..<12 { group.addTask { try? await serverProcess() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.contains(nil) && results.contains(first))
        #expect(try await serverProcess() == first)
        reader.close()
    }

    @Test("answer all who wait for the claim of a transaction with one query")
    func claims() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        let proxy = try await PostgreSQLProxy(to: server, delay: 100)
        let url = try PostgreSQLURL(proxy.url(fixture.database.name, user: LedgerDatabases.daemon))
        let ledger = try await fixture.node("node-2") { ($0.url, $0.timeout) = (url, .seconds(5)) }
        #expect(try await fixture.release(1, on: ledger).verdict == .released)
        // One after the other these take ten seconds.
        let found = try await withThrowingTaskGroup(of: (Int, Repeatability).self) { group in
            for number in 1...50 { group.addTask { (number, try await ledger.wouldRepeat(fixture.request(number))) } }
            return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        #expect(found[1] == .yes)
        #expect(found.count == 50 && found.values.count { $0 == .unclaimed } == 49)
        await ledger.close()
    }
}
