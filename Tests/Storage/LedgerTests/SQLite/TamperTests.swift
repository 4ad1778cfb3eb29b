import AuditChain
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Ledger

@Suite("Tampering with the database")
struct TamperTests {
    private let signer = CheckpointSigner()

    /// Makes a ledger with 30 records and audit checkpoints of the records 10, 20 and 30.
    private func sealed(node: String = "node-1") async throws -> LedgerFixture {
        let fixture = try await LedgerFixture()
        for number in 1...30 {
            _ = try await fixture.releasing(number)(fixture.ledger)
            if number % 10 == 0 { try await signer.seal(fixture.ledger) }
        }
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 30)
        return fixture
    }

    private func verdict(after statement: String, head: SignedCheckpoint? = nil) async throws -> ChainVerdict {
        let fixture = try await sealed()
        try await fixture.sqlite.connections.write { try $0.execute(sql: statement) }
        return try await signer.verdict(of: fixture.ledger, head: head)
    }

    @Test("names a changed line")
    func changed() async throws {
        let verdict = try await verdict(
            after: """
                UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), '"ok"', '"no"') AS BLOB)
                WHERE sequence = 17
                """)
        #expect(verdict.brokenAt == "record 17")
        #expect(verdict.fault == .changed)
    }

    @Test("names a removed record", arguments: [1, 17, 20])
    func removed(sequence: Int) async throws {
        let verdict = try await verdict(after: "DELETE FROM audit_record WHERE sequence = \(sequence)")
        #expect(
            verdict.fault == (sequence == 1 ? .noBeginning : .missing(from: sequence, to: sequence))
                || verdict.brokenAt == "checkpoint \(sequence)", "\(verdict)")
    }

    @Test("finds two records that changed places")
    func swapped() async throws {
        let verdict = try await verdict(
            after: """
                UPDATE audit_record SET sequence = 99 WHERE sequence = 12;
                UPDATE audit_record SET sequence = 12 WHERE sequence = 13;
                UPDATE audit_record SET sequence = 13 WHERE sequence = 99
                """)
        #expect(verdict.fault == .missing(from: 12, to: 12))
    }

    @Test("finds an inserted copy of a record")
    func inserted() async throws {
        let verdict = try await verdict(
            after: """
                UPDATE audit_record SET sequence = sequence + 1000 WHERE sequence > 15;
                INSERT INTO audit_record (node, sequence, time, event, outcome, hash, line)
                SELECT node, 16, time, event, outcome, hash, line FROM audit_record WHERE sequence = 15;
                UPDATE audit_record SET sequence = sequence - 999 WHERE sequence > 1000
                """)
        #expect(verdict.brokenAt == "record 15")
        #expect(verdict.fault == .outOfOrder(after: 15))
    }

    @Test("finds another node's line in the chain")
    func anotherNode() async throws {
        let verdict = try await verdict(
            after: """
                UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), '"node-1"', '"node-2"') AS BLOB)
                WHERE sequence = 17
                """)
        #expect(verdict.fault == .noBeginning)
    }

    @Test(
        "reports a chain cut after its last checkpoint as unsealed, and one cut at a checkpoint by a stored head")
    func cutOff() async throws {
        let unsealed = try await verdict(
            after: "DELETE FROM audit_record WHERE sequence > 25; DELETE FROM checkpoint WHERE sequence > 25")
        guard case .unsealed = unsealed else {
            Issue.record("\(unsealed)")
            return
        }
        let fixture = try await sealed()
        let kept = try #require(try await fixture.ledger.latestCheckpoint())
        try await fixture.sqlite.connections.write {
            try $0.execute(
                sql: "DELETE FROM audit_record WHERE sequence > 20; DELETE FROM checkpoint WHERE sequence > 20")
        }
        #expect(try await signer.verdict(of: fixture.ledger).intactRecords == 20)
        #expect(try await signer.verdict(of: fixture.ledger, head: kept).fault == .endsBeforeHead(last: 20))
        #expect(try await fixture.ledger.compare(with: kept.checkpoint) == .behind(last: 20))
    }

    @Test("finds a chain that was rewritten with its hashes at the next checkpoint")
    func rewritten() async throws {
        let fixture = try await sealed()
        try await fixture.sqlite.connections.write {
            try $0.execute(sql: "DELETE FROM audit_record WHERE sequence > 14")
        }
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        for number in 15...30 { _ = try await fixture.releasing(number + 100)(again) }
        let verdict = try await signer.verdict(of: again)
        await again.close()
        #expect(verdict.brokenAt == "checkpoint 20")
        #expect(verdict.fault == .sealsAnother(sealedBefore: 10))
    }

    @Test("releases nothing on a chain with another end than this process left, and continues when it is restored")
    func changedWhileRunning() async throws {
        let fixture = try await sealed()
        try await fixture.sqlite.connections.write {
            try $0.execute(
                sql: """
                    CREATE TABLE kept AS SELECT * FROM audit_record WHERE sequence = 30;
                    DELETE FROM audit_record WHERE sequence = 30;
                    DELETE FROM claim
                    """)
        }
        for _ in 1...2 {
            let error = await #expect(throws: LedgerFailure.self) {
                try await fixture.releasing(30)(fixture.ledger)
            }
            #expect("\(String(describing: error))".contains("does not end where this process left it"))
            await #expect(throws: LedgerFailure.self) { try await fixture.ledger.probe() }
        }
        try await fixture.sqlite.connections.write {
            try $0.execute(sql: "INSERT INTO audit_record SELECT * FROM kept")
        }
        #expect(try await fixture.releasing(31)(fixture.ledger).sequence == 31)
        // The ledger does not continue from a record of another program either.
        try await fixture.sqlite.connections.write {
            try $0.execute(sql: "UPDATE audit_record SET sequence = 32 WHERE sequence = 31")
        }
        await #expect(throws: LedgerFailure.self) { try await fixture.releasing(33)(fixture.ledger) }
    }

    @Test("releases nothing when the chain's end cannot be read", arguments: ["hash = x'00'", "sequence = -30"])
    func unreadableEnd(change: String) async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.releasing(1)(fixture.ledger).sequence == 1)
        await fixture.ledger.close()
        try await DatabaseQueue(path: fixture.settings.path).write {
            try $0.execute(sql: "PRAGMA ignore_check_constraints = ON; UPDATE audit_record SET \(change)")
        }
        let again = try await fixture.reopened()
        await #expect(throws: LedgerFailure.self) { try await fixture.releasing(2)(again) }
        await #expect(throws: LedgerFailure.self) { try await again.head() }
        // A refusal needs no record.
        #expect(try await fixture.releasing(1, reference: nil)(again) == RecordedVerdict(.replayed, sequence: nil))
        await again.close()
    }

    @Test("finds a changed or removed checkpoint")
    func checkpoint() async throws {
        let changed = try await verdict(
            after: """
                UPDATE checkpoint SET line = CAST(replace(CAST(line AS TEXT), '"time":"2027', '"time":"2026') AS BLOB)
                WHERE sequence = 20
                """)
        #expect(changed.fault == .wrongSignature)
        let removed = try await verdict(after: "DELETE FROM checkpoint WHERE sequence = 30")
        guard case .unsealed = removed else {
            Issue.record("\(removed)")
            return
        }
    }

    @Test("tells whether a ledger has, precedes, or contradicts the head that the HSM token remembers")
    func rememberedHeads() async throws {
        let fixture = try await sealed()
        let ledger = fixture.ledger
        for checkpoint in try await ledger.checkpoints(after: 0, limit: 10) {
            #expect(try await ledger.compare(with: checkpoint.checkpoint) == .continues)
        }
        let other = try await LedgerFixture()
        let remembered = try #require(try await ledger.latestCheckpoint()).checkpoint
        #expect(try await other.ledger.compare(with: remembered) == .behind(last: 0))
        for number in 1...30 { _ = try await other.releasing(number + 500)(other.ledger) }
        #expect(try await other.ledger.compare(with: remembered) == .forked)
        let node = try #require(AuditNode("node-2"))
        let head = try #require(ChainHead(node: node, sequence: 30, hash: remembered.hash))
        #expect(try await ledger.compare(with: try await signer.checkpoint(of: head).checkpoint) == .anotherNode)
    }

    @Test("finds an older database file by the stored head")
    func rolledBack() async throws {
        let fixture = try await sealed()
        let older = fixture.directory.path("older.sqlite")
        _ = try await fixture.ledger.backup(to: older)
        for number in 31...40 { _ = try await fixture.releasing(number)(fixture.ledger) }
        let kept = try await signer.seal(fixture.ledger)
        await fixture.ledger.close()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: fixture.settings.path + suffix)
        }
        try FileManager.default.moveItem(atPath: older, toPath: fixture.settings.path)
        let again = try await fixture.reopened()
        #expect(try await again.compare(with: kept.checkpoint) == .behind(last: 30))
        #expect(try await signer.verdict(of: again, head: kept).fault == .endsBeforeHead(last: 30))
        await again.close()
    }
}
