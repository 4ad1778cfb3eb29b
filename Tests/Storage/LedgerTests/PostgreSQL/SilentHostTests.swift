import DatabaseKit
import Foundation
import PostgreSQLClient
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

/// URLs with two hosts, one of which does not answer.
@Suite("A silent host of a PostgreSQL ledger's URL")
struct SilentHostTests {
    /// Returns the fixture's URL with other hosts and ports.
    private func url(_ fixture: PostgreSQLFixture, hosts: [String], ports: [Int]) throws -> PostgreSQLURL {
        let ports = ports.map(String.init).joined(separator: ",")
        return try PostgreSQLURL(
            "postgresql://\(LedgerDatabases.daemon)@/\(fixture.database.name)?host=\(hosts.joined(separator: ","))"
                + "&port=\(ports)")
    }

    @Test("delays the first session and no later one", arguments: SilentPort.Kind.allCases)
    func first(kind: SilentPort.Kind) async throws {
        let silent = try await SilentPort(kind)
        let server = try await PostgreSQLServer.onTCP()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        let url = try url(fixture, hosts: ["127.0.0.1", "127.0.0.1"], ports: [silent.port, server.port])
        let unused = try silent.waiting
        let (ledger, first) = try await observing(silent) {
            try await fixture.node("node-2") { ($0.url, $0.timeout) = (url, .seconds(12)) }
        }
        #expect(first > unused)
        let used = try silent.waiting
        for number in 1...3 {
            try await fixture.endSessions()
            let (recorded, waiting) = try await observing(silent) { try await fixture.release(number, on: ledger) }
            #expect(recorded.verdict == .released)
            #expect(waiting == used)
        }
        await ledger.close()
    }

    /// Runs a body, and returns its value with the largest number of the silent port's waiting connections meanwhile. An
    /// attempt to connect to the port lasts for seconds.
    private func observing<Value: Sendable>(
        _ silent: SilentPort, _ body: () async throws -> Value
    ) async throws -> (value: Value, waiting: Int) {
        let observer = Task {
            var largest = try silent.waiting
            while !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(20))
                largest = max(largest, try silent.waiting)
            }
            return largest
        }
        let value = try await body()
        observer.cancel()
        return (value, try await observer.value)
    }

    @Test("is left for the other one when it had the sessions, while it stays silent")
    func sessions() async throws {
        let server = try await PostgreSQLServer()
        let fixture = try await PostgreSQLFixture(LedgerDatabases(server: server))
        let url = try url(fixture, hosts: [fixture.proxy.directory.path, server.directory.path], ports: [server.port])
        let ledger = try await fixture.node("node-2") { ($0.url, $0.timeout) = (url, .seconds(12)) }
        #expect(try await fixture.release(1, on: ledger).verdict == .released)
        fixture.proxy.fault = .silence
        #expect(try await fixture.begin(2, on: ledger).value().isUnavailable)
        for number in [3, 2] {
            let verdict = try await releaseAtLast(number, fixture, on: ledger)
            #expect([.released, .repeated].contains(verdict))
        }
        await ledger.close()
    }

    /// Repeats a release until it succeeds. Every call fails at once until the writer has left the silent host.
    private func releaseAtLast(
        _ number: Int, _ fixture: PostgreSQLFixture, on ledger: PostgreSQLLedger
    ) async throws -> ReleaseVerdict {
        for _ in 1..<600 {
            do {
                return try await fixture.release(number, on: ledger).verdict
            } catch LedgerFailure.timedOut, LedgerFailure.unavailable {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        return try await fixture.release(number, on: ledger).verdict
    }

    @Test("takes a part of the time only, when it is one address of a name", arguments: SilentPort.Kind.allCases)
    func address(kind: SilentPort.Kind) async throws {
        let server = try await PostgreSQLServer.onTCP()
        let silent = try await SilentPort(kind, address: "127.0.0.2", port: server.port)
        let hosts = PostgreSQLHosts(
            try PostgreSQLURL(server.url(host: "db.test", "postgres", user: PostgreSQLServer.superuser)),
            passwordFile: nil, timeout: .seconds(12), application: "tests"
        ) { _ in ["127.0.0.2", "127.0.0.1"] }
        let unused = try silent.waiting
        func connect() async throws -> Int {
            let (connection, waiting) = try await observing(silent) {
                try await onThread { () throws(PostgreSQLOpeningFailure) in
                    try hosts.connect(until: .now + .seconds(12))
                }
            }
            #expect(connection.host == "db.test:\(silent.port)" && connection.parameters["hostaddr"] == "127.0.0.1")
            return waiting
        }
        #expect(try await connect() > unused)
        let used = try silent.waiting
        #expect(try await connect() == used)
    }

    @Test("leaves all the time to a slow one in its turn", arguments: SilentPort.Kind.allCases)
    func slow(kind: SilentPort.Kind) async throws {
        let silent = try await SilentPort(kind)
        let server = try await PostgreSQLServer()
        // One round trip takes longer than this host's share of a third.
        let slow = try await PostgreSQLProxy(to: server, delay: 250)
        let timeout = Duration.milliseconds(1200)
        let url = try PostgreSQLURL(
            "postgresql://\(PostgreSQLServer.superuser)@/postgres?host=127.0.0.1,\(slow.directory.path)"
                + "&port=\(silent.port),\(PostgreSQLServer.port)")
        let hosts = PostgreSQLHosts(url, passwordFile: nil, timeout: timeout, application: "tests")
        var late = 0
        while late < 50 {
            do {
                let connection = try await onThread { () throws(PostgreSQLOpeningFailure) in
                    try hosts.connect(until: .now + timeout)
                }
                #expect(connection.host == slow.directory.path)
                break
            } catch { late += 1 }
        }
        #expect((1..<50).contains(late))
    }

    @Test("does not take all the time of a host that becomes the primary", arguments: SilentPort.Kind.allCases)
    func movedName(kind: SilentPort.Kind) async throws {
        let (server, other) = (try await PostgreSQLServer.onTCP(), try await PostgreSQLServer.onTCP())
        let silent = try await SilentPort(kind, address: "127.0.0.2", port: server.port)
        let addresses = Shared("127.0.0.1")
        let url = try PostgreSQLURL(
            "postgresql://\(PostgreSQLServer.superuser)@/postgres?host=db.test,127.0.0.1"
                + "&port=\(server.port),\(other.port)")
        let hosts = PostgreSQLHosts(url, passwordFile: nil, timeout: .seconds(6), application: "tests") { name in
            [name == "db.test" ? addresses.current : name]
        }
        func connect() async throws -> String {
            try await onThread { () throws(PostgreSQLOpeningFailure) in
                try hosts.connect(until: .now + .seconds(6))
            }.host
        }
        #expect(try await connect() == "db.test:\(server.port)")
        // The name has got the address of a host that is silent, and the other host is not the primary yet.
        addresses.change { $0 = "127.0.0.2" }
        try await other.sql("ALTER DATABASE postgres SET default_transaction_read_only = on")
        await #expect(throws: PostgreSQLOpeningFailure.self) { try await connect() }
        try await other.sql("ALTER DATABASE postgres RESET default_transaction_read_only", in: "template1")
        var found: String?
        for _ in 0..<3 where found == nil { found = try? await connect() }
        #expect(found == "127.0.0.1:\(other.port)")
        _ = silent
    }
}
