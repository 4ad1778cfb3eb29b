import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("A node's name in PostgreSQL")
struct NodeLeaseTests {
    private let signer = CheckpointSigner()

    @Test("refuses a second daemon of a name in use, without harm to the first")
    func second() async throws {
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(2) }
        let server = try fixture.database.url().server
        await #expect(throws: LedgerOpeningError.nodeInUse(node: "node-1", server: server)) {
            try await fixture.node("node-1")
        }
        #expect(try await fixture.release(1).verdict == .released)
        #expect(fixture.ledger.lease?.fencingNumber == 1 && fixture.ledger.lease?.isLost == false)
        await fixture.ledger.close()
        let again = try await fixture.node("node-1")
        #expect(again.lease?.fencingNumber == 2)
        await again.close()
    }

    @Test("waits for the lease of a daemon that was killed, and no longer")
    func killed() async throws {
        let fixture = try await PostgreSQLFixture()
        // This is the row that a killed daemon leaves, with a lease that no daemon renews.
        try await fixture.database.sql(
            """
            INSERT INTO node (name, fence, lease_until, seen_at, version)
            VALUES ('node-9', 7, clock_timestamp() + interval '1 second', clock_timestamp(), '1')
            """)
        let ledger = try await fixture.node("node-9") { $0.lease = .seconds(1) }
        #expect(ledger.lease?.fencingNumber == 8)
        #expect(try await fixture.release(1, on: ledger).verdict == .released)
        await ledger.close()
    }

    @Test("keeps a lease that ran out until another daemon takes it")
    func expired() async throws {
        let fixture = try await PostgreSQLFixture()
        try await fixture.database.sql("UPDATE node SET lease_until = clock_timestamp() - interval '1 hour'")
        #expect(try await fixture.release(1).verdict == .released)
        #expect(try await fixture.database.sql("SELECT lease_until > clock_timestamp() FROM node") == "t", "renewed")
    }

    @Test("renews the lease without any call")
    func renewed() async throws {
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(3) }
        func end() async throws -> String { try await fixture.database.sql("SELECT lease_until FROM node") }
        let first = try await end()
        try await wait(for: "a renewal") { try await end() != first }
        #expect(try await fixture.ledger.serverStatus()?.nodes.map(\.isLeased) == [true])
    }

    @Test("commits nothing after another daemon took its name before a delayed commit")
    func fenced() async throws {
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(1) }
        fixture.proxy.fault = .holdCommit(then: .refuse)
        let late = fixture.begin(1)
        try await wait(for: "the commit") { fixture.proxy.fault == .refuse }
        // The server ends the session that is idle in a transaction; then its lease expires.
        let other = try await fixture.node("node-1")
        #expect(try await fixture.release(2, on: other) == RecordedVerdict(.released, sequence: 1))
        fixture.proxy.fault = .none
        let answer = try await late.value()
        #expect(answer.isUnavailable, "\(answer)")
        #expect(fixture.ledger.lease?.isLost == true)
        #expect(try await fixture.begin(3).value().isUnavailable)
        #expect(try await fixture.count("claim") == 1)
        #expect(try await fixture.release(1, on: other) == RecordedVerdict(.released, sequence: 2))
        try await signer.seal(other)
        #expect(try await signer.verdict(of: other).intactRecords == 2)
        await other.close()
    }

    @Test("answers no commit that was in doubt when another daemon took the name")
    func fencedInDoubt() async throws {
        let fixture = try await PostgreSQLFixture { $0.lease = .seconds(1) }
        fixture.proxy.fault = .loseCommit(then: .refuse)
        let late = fixture.begin(1)
        try await wait(for: "the cut") { fixture.proxy.cuts == 1 }
        let other = try await fixture.node("node-1")
        fixture.proxy.fault = .none
        #expect(try await late.value().isUnavailable)
        #expect(fixture.ledger.lease?.isLost == true)
        #expect(try await fixture.release(1, on: other).verdict == .released)
        await other.close()
    }

    @Test("waits for another daemon that is taking the name, and commits nothing afterwards")
    func takenMeanwhile() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.database.session()
        try await other.run("BEGIN")
        try await other.run("UPDATE node SET fence = fence + 1")
        let release = fixture.begin(1)
        try await wait(for: "the wait for the node's row", within: 30) {
            try await fixture.sessions("wait_event_type = 'Lock'") > 0
        }
        try await other.run("COMMIT")
        #expect(try await release.value().isUnavailable)
        #expect(try await fixture.count("claim") == 0)
    }

    @Test("checks names by the same rules as elsewhere")
    func names() async throws {
        let fixture = try await PostgreSQLFixture()
        for name in ["", "a b", String(repeating: "x", count: 65)] {
            await #expect(throws: LedgerOpeningError.nodeName(name)) { try await fixture.node(name) }
        }
    }
}
