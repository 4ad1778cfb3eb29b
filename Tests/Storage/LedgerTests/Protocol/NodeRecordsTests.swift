import AuditChain
import Foundation
import MerchantKeys
import TestSupport
import Testing

@testable import Ledger
@testable import PostgreSQLLedger

@Suite("The records of all nodes", .everyEngine)
struct NodeRecordsTests {
    @Test("knows its own node, whose chain it writes, and no audit keys of others")
    func own() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        for number in 1...3 { _ = try await fixture.releasing(number)(ledger) }
        let node = try #require(AuditNode(ledger.node))
        #expect(try await ledger.nodes() == [node])
        let chain = ledger.chain(of: node)
        #expect(try await chain.head() == ledger.head())
        #expect(try await chain.lines(1...3, limit: 10) == ledger.lines(1...3, limit: 10))
        try await ledger.planAuditKey(identifier: [UInt8](repeating: 1, count: 16), in: "primary")
        #expect(try await ledger.auditKeysOfOtherNodes().isEmpty)
    }
}

@Suite("The records of other nodes in one database")
struct OtherNodesRecordsTests {
    @Test(
        "finds nodes by their row, their record or their key; reads each chain by itself and keys by node"
    )
    func others() async throws {
        let fixture = try await PostgreSQLFixture()
        let other = try await fixture.node("node-2")
        let signer = CheckpointSigner()
        let record = AuditRecord(time: AuditTime(LedgerFixture.noon), event: .verify)
        for _ in 0..<5 { _ = try await other.append(record) }
        try await signer.seal(other)
        _ = try await other.append(record)
        _ = try await fixture.ledger.append(record)
        let (identifier, point) = ([UInt8](repeating: 7, count: 16), Array(signer.key.publicKey.x963Representation))
        try await other.planAuditKey(identifier: identifier, in: "primary")
        #expect(try await fixture.ledger.auditKeysOfOtherNodes().map(\.key.publicKey) == [nil])
        try await other.confirmAuditKey(identifier: identifier, publicKey: point, recording: nil)

        let (first, second) = (AuditNode("node-1")!, AuditNode("node-2")!)
        #expect(try await fixture.ledger.nodes() == [first, second])
        #expect(
            try await fixture.ledger.auditKeysOfOtherNodes()
                == [
                    NodeAuditKey(
                        node: second, key: StoredAuditKey(identifier: identifier, publicKey: point, hsmToken: "primary")
                    )
                ])
        #expect(try await other.auditKeysOfOtherNodes().isEmpty)
        let chain = fixture.ledger.chain(of: second)
        #expect(try await chain.head() == other.head())
        #expect(try await chain.latestCheckpoint()?.checkpoint.sequence == 5)
        #expect(try await chain.records(AuditFilter(), order: .newestFirst, after: nil, limit: 10).records.count == 6)
        #expect(try await fixture.ledger.chain(of: AuditNode("node-3")!).head().sequence == 0)

        // A node without a row is still known by its audit records.
        await other.close()
        try await fixture.database.sql("DELETE FROM node WHERE name = 'node-2'; DELETE FROM audit_key")
        #expect(try await fixture.ledger.nodes() == [first, second])
        try await fixture.database.sql(
            "SET session_replication_role = replica; DELETE FROM audit_record WHERE node = 'node-2'")
        #expect(try await fixture.ledger.nodes() == [first])
        await fixture.ledger.close()
    }

    @Test("finds records about audit keys by an index")
    func keyEvents() async throws {
        let fixture = try await PostgreSQLFixture()
        let ledger = fixture.ledger
        let key = try CheckpointSigner().publicKey
        let node = AuditNode("node-2")!
        let pin = try #require(KeyPin(trustedOnFirstUse: [key], of: node))
        let events: [AuditEvent] = [
            .verify, .auditKeyPinned(pin), .stop, .auditKeyConflict(node: node, key: key), .verify,
            .auditKeyPrepare(from: key.keyId, to: key.keyId),
        ]
        for event in events {
            _ = try await ledger.append(AuditRecord(time: AuditTime(LedgerFixture.noon), event: event))
        }
        let found = try await ledger.auditKeyEvents(of: try #require(AuditNode(ledger.node)))
        #expect(found.map(\.sequence) == [2, 4, 6])
        #expect(KeyPin(line: found[0].line) == pin && KeyPin(line: found[1].line) == nil)
        // The result does not depend on the number of other records.
        try await fixture.database.sql(
            """
            SET session_replication_role = replica;
            INSERT INTO audit_record (node, sequence, time, event, outcome, hash, line)
            SELECT 'node-9', n, 0, 'audit_key_conflict', 'ok', decode(repeat('00', 32), 'hex'), 'x' FROM generate_series(1, 4500) AS n
            """)
        let many = try await ledger.auditKeyEvents(of: try #require(AuditNode("node-9")))
        #expect(many.map(\.sequence) == Array(1...4500))
        let plan = try await fixture.database.sql(
            """
            SET enable_seqscan = off; SET enable_bitmapscan = off;
            EXPLAIN SELECT line FROM audit_record WHERE node = 'node-1' AND \(PostgreSQLTables.auditKeyEvents) ORDER BY sequence
            """)
        #expect(plan.contains("audit_record_of_keys"), "\(plan)")
        await ledger.close()
    }
}
