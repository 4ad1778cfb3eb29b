import AuditChain
import Foundation
import GRDB
import Ledger
import Synchronization
import TestSupport
import Testing

@testable import Daemon

/// The daemon's own look at its record. In each test record 1 puts the audit key into service, and is sealed.
@Suite struct RecordCheckTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture

    init() async throws {
        directory = try FreshDirectory()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
        await fixture.gate.compare()
    }

    /// As somebody with a shell on the ledger's file would.
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

    @Test("nothing is said before the first look; then the verdict, and how long ago it was given")
    func ages() async throws {
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
        #expect(check.age == .zero, "looked again, though nothing new is recorded")
    }

    @Test("a record that was changed before it was sealed is named until it is as it was written")
    func changed() async throws {
        try await fixture.append(5)
        #expect(await fault() == nil)
        try await fixture.append(5)
        try change(8)
        let found = try #require(await fault())
        #expect(found.hasPrefix("node node-1, record 8: "), "\(found)")
        #expect(fixture.check.warnings.count == 1)
        #expect(fixture.check.warnings.first?.contains("record 8") == true)
        try await fixture.append(5)
        #expect(await fault() == found, "what is right behind it does not hide it")
        try change(8, from: "decrypt", to: "verify")
        #expect(await fault() == nil)
        #expect(fixture.check.warnings.isEmpty)
    }

    @Test("a checkpoint behind a break hides it neither from this process nor from the next")
    func sealed() async throws {
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
        "records that are gone are missed, from the middle and from the end",
        arguments: [("= 4", "record"), ("> 3", "had reached")])
    func removed(which: String, says: String) async throws {
        try await fixture.append(5)
        #expect(await fault() == nil)
        try await fixture.append(1)
        try execute("DELETE FROM audit_record WHERE sequence \(which)")
        // The middle has been read, so that only a later process looks there again.
        let check = which == "= 4" ? RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet) : fixture.check
        await check.run()
        let found = try #require(check.finding?.fault)
        #expect(found.contains(says), "\(found)")
    }

    @Test("a checkpoint that the audit key did not sign is named")
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

    @Test("many records are read over several pages, and checkpoints among them are followed")
    func pages() async throws {
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

    @Test("what a due checkpoint seals is looked at first")
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

    @Test("a ledger that cannot be read leaves the last verdict as it is")
    func unreadable() async throws {
        let clock = SteppedClock()
        let check = RecordCheck(ledger: fixture.ledger, logger: RecordFixture.quiet, now: { clock.now })
        await check.run()
        await fixture.ledger.close()
        clock.step(by: .seconds(60))
        await check.run()
        #expect(check.finding?.fault == nil && check.age == .seconds(60))
    }

    @Test("a look that was under way when the record became another tells nothing of the other")
    func anotherRecord() async throws {
        try await fixture.append(5)
        try change(4)
        let begun = Mutex<RecordCheck?>(nil)
        let check = RecordCheck(
            ledger: fixture.ledger, logger: RecordFixture.quiet,
            now: {
                // Asked for when the look has ended, and before it is noted.
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

/// Stands still until it is stepped.
final class SteppedClock: Sendable {
    private let instant = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { instant.withLock { $0 } }

    func step(by duration: Duration) { instant.withLock { $0 += duration } }
}
