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
        var began = ContinuousClock.now
        let ledger = try await fixture.node("node-2") { ($0.url, $0.timeout) = (url, .seconds(12)) }
        let opening = ContinuousClock.now - began
        for number in 1...3 {
            try await fixture.endSessions()
            began = .now
            #expect(try await fixture.release(number, on: ledger).verdict == .released)
            #expect(ContinuousClock.now - began < opening / 2)
        }
        await ledger.close()
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
        var times: [Duration] = []
        for _ in 1...2 {
            let began = ContinuousClock.now
            let connection = try await onThread { () throws(PostgreSQLOpeningFailure) in
                try hosts.connect(until: .now + .seconds(12))
            }
            times.append(.now - began)
            #expect(connection.host == "db.test:\(silent.port)" && connection.parameters["hostaddr"] == "127.0.0.1")
        }
        #expect(times[1] < times[0] / 2)
    }
}
