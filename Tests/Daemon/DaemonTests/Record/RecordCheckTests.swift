import AuditChain
import Foundation
import GRDB
import Ledger
import Locks
import TestSupport
import Testing

@testable import UsageRecording

/// The daemon's own check of its audit record. In each test, record 1 is the first use of the audit key, and is sealed.
@Suite struct RecordCheckTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture

    init() async throws {
        directory = try FreshDirectory()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await fixture.gate.compare()
    }

    /// Changes the ledger as an operator with a shell could change its file.
    private func execute(_ statement: String) throws {
        let queue = try DatabaseQueue(path: directory.path("ledger.sqlite"))
        try queue.write { try $0.execute(sql: statement) }
        try queue.close()
    }

    private func change(_ sequence: Int, from: String = "verify", to: String = "decrypt") throws {
        try execute(
            """
            UPDATE audit_record SET line = CAST(replace(CAST(line AS TEXT), '"\(from)"', '"\(to)"') AS BLOB)
            WHERE sequence = \(sequence)
            """)
    }

    private func fault() async -> String? {
        await fixture.check.run()
        return fixture.check.finding?.fault
    }

    @Test("reports nothing before the first check, then the verdict and its age")
    func verdictAndAge() async throws {
        let clock = SteppedClock()
        let check = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet, now: { clock.now })
        #expect(check.finding == nil && check.age == nil && check.warnings.isEmpty)
        try await fixture.append(5)
        await check.run()
        #expect(check.finding == RecordCheck.Finding(at: clock.now, fault: nil))
        #expect(check.age == .zero)
        clock.step(by: .seconds(90))
        #expect(check.age == .seconds(90))
        await check.run()
        #expect(check.age == .zero, "checked again, although there is no new record")
    }

    @Test("names a record changed before it was sealed, until its original content is back")
    func changedRecord() async throws {
        try await fixture.append(5)
        #expect(await fault() == nil)
        try await fixture.append(5)
        try change(8)
        let found = try #require(await fault())
        #expect(found.hasPrefix("node node-1, record 8: "), "\(found)")
        #expect(fixture.check.warnings.count == 1)
        #expect(fixture.check.warnings.first?.contains("record 8") == true)
        try await fixture.append(5)
        #expect(await fault() == found, "correct records after record 8 do not hide the fault")
        try change(8, from: "decrypt", to: "verify")
        #expect(await fault() == nil)
        #expect(fixture.check.warnings.isEmpty)
    }

    @Test("reports a break before an audit checkpoint, in this process and the next")
    func breakBeforeCheckpoint() async throws {
        try await fixture.append(5)
        try change(4)
        try await fixture.checkpoints.seal()
        let found = try #require(await fault())
        #expect(found.hasPrefix("node node-1, record 4: "), "\(found)")
        let next = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet)
        await next.run()
        #expect(next.finding?.fault == found)
    }

    @Test(
        "reports records missing from the middle and from the end",
        arguments: [("= 4", "record"), ("> 3", "had reached")])
    func missingRecords(which: String, says: String) async throws {
        try await fixture.append(5)
        #expect(await fault() == nil)
        try await fixture.append(1)
        try execute("DELETE FROM audit_record WHERE sequence \(which)")
        // The fixture's check has already read record 4, and does not notice that it is now missing. A new check notices
        // it, as after a restart of the daemon.
        let check = which == "= 4" ? RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet) : fixture.check
        await check.run()
        let found = try #require(check.finding?.fault)
        #expect(found.contains(says), "\(found)")
    }

    @Test("names an audit checkpoint that the audit key did not sign")
    func forgedCheckpoint() async throws {
        try await fixture.append(5)
        try await fixture.checkpoints.seal()
        try execute(
            """
            UPDATE checkpoint SET line = CAST(replace(CAST(line AS TEXT), '"time":"2027', '"time":"2026') AS BLOB)
            WHERE sequence = 6
            """)
        let found = try #require(await fault())
        #expect(found.hasPrefix("node node-1, checkpoint 6: "), "\(found)")
    }

    @Test("reads many records over several pages, with audit checkpoints among them")
    func severalPages() async throws {
        for _ in 0..<3 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<10 { group.addTask { try await fixture.append(60) } }
                try await group.waitForAll()
            }
            try await fixture.checkpoints.seal()
        }
        #expect(await fault() == nil)
        try change(1_777)
        let next = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet)
        await next.run()
        #expect(next.finding?.fault?.hasPrefix("node node-1, record 1777: ") == true)
    }

    @Test("checks the records before a due audit checkpoint seals them")
    func beforeCheckpoints() async throws {
        try await fixture.append(1_000)
        #expect(fixture.check.finding == nil)
        let sealing = fixture.checkpoints.start()
        defer { sealing.cancel() }
        try await wait(for: "the checkpoint") {
            try await fixture.ledger.latestCheckpoint()?.checkpoint.sequence ?? 0 >= 1_000
        }
        #expect(fixture.check.finding?.fault == nil && fixture.check.finding != nil)
    }

    @Test("keeps the last verdict while the ledger cannot be read")
    func unreadableLedger() async throws {
        let clock = SteppedClock()
        let check = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet, now: { clock.now })
        await check.run()
        await fixture.ledger.close()
        clock.step(by: .seconds(60))
        await check.run()
        #expect(check.finding?.fault == nil && check.age == .seconds(60))
    }

    @Test("discards the result of a check that was under way when the record was replaced")
    func anotherRecord() async throws {
        try await fixture.append(5)
        try change(4)
        let begun = Mutex<RecordCheck?>(nil)
        let check = RecordCheck(
            ledger: fixture.ledger, logger: RecordFixture.quiet,
            now: {
                // The check calls this clock after its last read, and before it stores its result.
                begun.withLock { $0.take() }?.reset()
                return .now
            })
        begun.withLock { $0 = check }
        await check.run()
        #expect(check.finding == nil)
        await check.run()
        #expect(check.finding?.fault?.hasPrefix("node node-1, record 4: ") == true)
    }
}

/// A clock that advances only in steps.
final class SteppedClock: Sendable {
    private let instant = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { instant.withLock { $0 } }

    func step(by duration: Duration) { instant.withLock { $0 += duration } }
}
