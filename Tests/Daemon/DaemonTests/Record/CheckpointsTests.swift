import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Telemetry
@testable import UsageRecording

/// The sealing of the audit record with the key in the HSM token.
@Suite struct CheckpointsTests {
    private let directory: FreshDirectory
    private let hsmToken = SoftwareAuditToken()

    init() throws {
        directory = try FreshDirectory()
    }

    private func fixture() async throws -> RecordFixture {
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: hsmToken)
        await fixture.gate.compare()
        return fixture
    }

    @Test("seals all records, and signs nothing for a second seal without new records")
    func sealsOnce() async throws {
        let fixture = try await fixture()
        try await fixture.append(5)
        let first = try #require(try await fixture.checkpoints.seal())
        #expect(first.checkpoint.sequence == 6)
        let signatures = hsmToken.signatures
        #expect(try await fixture.checkpoints.seal() == first)
        #expect(hsmToken.signatures == signatures)
        #expect(hsmToken.heads == [first.line])
    }

    @Test("stores and remembers no seal that another key than the audit key signed")
    func otherKey() async throws {
        let fixture = try await fixture()
        try await fixture.append()
        let before = try await fixture.checkpoints.seal()
        try await fixture.append()
        hsmToken.replacePrivateKey(of: try #require(hsmToken.identifiers.first))
        let refusal = await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
        #expect(refusal == .defect)
        #expect(try await fixture.ledger.latestCheckpoint() == before)
        #expect(hsmToken.heads == [before?.line])
    }

    @Test("leaves the newest of many simultaneous seals in the HSM token's memory")
    func simultaneousSeals() async throws {
        let fixture = try await fixture()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    try await fixture.append()
                    try await fixture.checkpoints.seal()
                }
            }
            try await group.waitForAll()
        }
        let head = try await fixture.ledger.head()
        let remembered = try #require(try await fixture.checkpoints.remembered())
        #expect(remembered.checkpoint.sequence == head.sequence)
    }

    @Test("seals a thousand records without a request")
    func thousandRecords() async throws {
        let fixture = try await fixture()
        let sealing = fixture.checkpoints.start()
        defer { sealing.cancel() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await fixture.append(100) } }
            try await group.waitForAll()
        }
        try await wait(for: "the checkpoint") {
            let sealed = try await fixture.ledger.latestCheckpoint()?.checkpoint.sequence ?? 0
            return sealed >= 1000
        }
    }

    @Test(
        "leaves the record unsealed while the HSM token does not sign, and tries again",
        arguments: [
            SoftwareAuditToken.Step.sign, .remember,
        ])
    func unsealedWhileUnavailable(step: SoftwareAuditToken.Step) async throws {
        let fixture = try await fixture()
        try await fixture.append()
        hsmToken.fail(at: step)
        let refusal = await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
        #expect(refusal?.code == .hsmUnavailable)
        hsmToken.fail(at: nil)
        let sealed = try #require(try await fixture.checkpoints.seal())
        #expect(sealed.checkpoint.sequence == 2)
        #expect(hsmToken.heads == [sealed.line])
    }

    @Test("pauses between tries while the HSM token fails, for any number of records")
    func pausesBetweenTries() async throws {
        let fixture = try await fixture()
        try await fixture.append(1000)
        let before = hsmToken.failures
        hsmToken.fail(at: .sign)
        let began = ContinuousClock.now
        let sealing = fixture.checkpoints.start()
        defer { sealing.cancel() }
        for _ in 0..<50 {
            let failures = hsmToken.failures
            try await fixture.append(1)
            if failures == before { try await wait(for: "the first try") { hsmToken.failures > before } }
        }
        let seconds = (ContinuousClock.now - began).inSeconds
        #expect(Double(hsmToken.failures - before) <= 1 + seconds, "one at once, the others at least a second apart")
    }

    @Test("doubles the pause between tries up to ten seconds, and resets it at the first success")
    func doublesPauses() {
        var (retry, now) = (SealRetry(), ContinuousClock.now)
        #expect(retry.isDue(at: now))
        for seconds in [1, 2, 4, 8, 10, 10] {
            retry.noteResult(.hsmUnavailable, at: now)
            now += .seconds(seconds)
            #expect(!retry.isDue(at: now - .milliseconds(1)) && retry.isDue(at: now))
        }
        retry.noteResult(nil, at: now)
        #expect(retry.isDue(at: now))
        retry.noteResult(.hsmUnavailable, at: now)
        #expect(retry.isDue(at: now + .seconds(1)))
        retry.noteResult(.deadlineExceeded, at: now)
        #expect(!retry.isDue(at: now + .seconds(59)) && retry.isDue(at: now + .seconds(60)))
    }

    @Test("seals records that no caller waited for like all others")
    func recordsWithoutCaller() async throws {
        let fixture = try await fixture()
        #expect(fixture.unsealed.deadline == nil, "all is sealed")
        fixture.ledger.note(AuditRecord(time: AuditTime(RecordFixture.noon), event: .verify))
        try await wait(for: "a deadline for the note") { fixture.unsealed.deadline != nil }
        let deadline = try #require(fixture.unsealed.deadline)
        #expect(!fixture.unsealed.isDue() && fixture.unsealed.isDue(at: deadline))
        try await fixture.checkpoints.seal()
        #expect(fixture.unsealed.deadline == nil)
    }

    @Test("seals a thousand notes without a request")
    func thousandNotes() async throws {
        let fixture = try await fixture()
        let sealing = fixture.checkpoints.start()
        defer { sealing.cancel() }
        for step in 1...10 {
            for _ in 0..<100 { fixture.ledger.note(AuditRecord(time: AuditTime(RecordFixture.noon), event: .verify)) }
            try await wait(for: "the notes") { try await fixture.ledger.head().sequence > step * 100 }
        }
        try await wait(for: "the checkpoint") {
            try await fixture.ledger.latestCheckpoint()?.checkpoint.sequence ?? 0 >= 1000
        }
    }

    @Test("bounds each wait for a seal while the HSM token hangs, and queues at most two seals")
    func hangingHSMToken() async throws {
        let hanging = HangingAuditToken(hsmToken)
        let fixture = try await fixture()
        let checkpoints = Checkpoints(
            ledger: fixture.ledger, hsmToken: hanging, clock: WallClock { RecordFixture.noon },
            patience: .milliseconds(50),
            logger: RecordFixture.quiet)
        let description = try #require(try await hsmToken.auditKeys().first)
        let key = try #require(AuditSigningKey(description))
        checkpoints.use(key, newest: nil, head: try await fixture.ledger.head())
        hanging.latch.close()
        for _ in 0..<5 {
            try await fixture.append()
            let refusal = await #expect(throws: Refusal.self) { try await checkpoints.seal() }
            #expect(refusal?.code == .hsmUnavailable)
        }
        #expect(hanging.latch.arrivals == 1)
        hanging.latch.open()
        try await wait(for: "the last seal") {
            try await fixture.ledger.latestCheckpoint()?.checkpoint.sequence == fixture.ledger.head().sequence
        }
        #expect(hanging.latch.arrivals == 2)
    }

    @Test("signs nothing before ledger and HSM token have been compared")
    func notBeforeComparison() async throws {
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: hsmToken)
        try await fixture.append()
        await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
        #expect(hsmToken.signatures == 0)
    }
}
