import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing
import WorkerProtocol
import WorkerSupervision

@testable import UsageRecording

/// Failures of the HSM token while it is compared with the ledger, and HSM tokens that hang when they store a head.
@Suite struct ComparisonFailureTests {
    private let directory: FreshDirectory
    private let hsmToken = SoftwareAuditToken()
    private static let hang = WorkerFailure(.deadlineExceeded, "The library did not return from remember_head.")

    init() throws {
        directory = try FreshDirectory()
    }

    private func fixture() async throws -> RecordFixture {
        try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: hsmToken)
    }

    // MARK: Failures

    @Test(
        "explains, while the gate waits, the failed call of an HSM token that is unavailable",
        arguments: [SoftwareAuditToken.Step.list, .create, .sign, .remember])
    func failedCallExplained(step: SoftwareAuditToken.Step) async throws {
        let fixture = try await fixture()
        hsmToken.fail(at: step, with: WorkerFailure(.hsmTokenUnavailable, "C_Sign: CKR_DEVICE_ERROR."))
        #expect(await fixture.gate.compare() == .hsmUnavailable)
        #expect(fixture.gate.waitingReason.contains("C_Sign: CKR_DEVICE_ERROR."))
    }

    @Test("doubles the pause between comparisons up to a minute, but waits only a second if the ledger cannot be read")
    func doublesPauses() {
        var retry = ComparisonRetry()
        let pauses = (0..<12).map { _ in retry.pause(after: .hsmUnavailable) }
        #expect(pauses[0] == .milliseconds(100) && pauses[1] == .milliseconds(200))
        #expect(pauses[10] == .seconds(60) && pauses[11] == .seconds(60))
        #expect(retry.pause(after: .ledgerUnavailable) == .seconds(1))
        var hung = ComparisonRetry()
        #expect(hung.pause(after: .deadlineExceeded) == .seconds(60))
    }

    @Test(
        "leaves no more objects in the HSM token after several failed comparisons than after the first",
        arguments: ["keys-not-local", "fault C_Sign always return=0x5", "fault C_GetAttributeValue every=9 return=0x5"])
    func leavesNoFurtherObjects(fault: String) async throws {
        let scripted = try ScriptedToken(try await TokenDirectory())
        let opened = HSMToken(
            HSMTokenSettings(
                name: "primary", module: scripted.libraryPath, uri: scripted.uri, pinFile: scripted.pinFile,
                sessions: 1, callTimeout: .seconds(10), recycleAfter: 1_000_000, allowExtractableSecret: true,
                environment: scripted.environment, initArgs: ""),
            executable: try WorkerExecutable(path: Program.built("paytokend-hsm")), logger: RecordFixture.quiet)
        let pool = HSMTokenPool(first: opened, others: [])
        await pool.start()
        try await wait(for: "the HSM token to be open", within: 120) { opened.isServing }
        try scripted.play(fault)
        let fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: opened)
        #expect(await fixture.gate.compare() == .hsmUnavailable)
        try await wait(for: "a worker", within: 120) { opened.isServing }
        let before = scripted.remainingObjects
        for _ in 0..<5 {
            #expect(await fixture.gate.compare() == .hsmUnavailable)
            try await wait(for: "a worker", within: 120) { opened.isServing }
        }
        #expect(scripted.remainingObjects == before)
        await pool.shutdown()
    }

    // MARK: Hangs

    @Test("serves although storing a head hangs, does not try it again, and warns of undetected older copies")
    func neverRemembered() async throws {
        let fixture = try await fixture()
        hsmToken.fail(at: .remember, with: Self.hang)
        await fixture.gate.compare()
        #expect(fixture.gate.position == .open)
        for _ in 0..<3 {
            try await fixture.append()
            try await fixture.checkpoints.seal()
        }
        #expect(hsmToken.failures == 1)
        let details = #""token":"primary","cause":"hung","message":"\#(Self.hang.message)""#
        #expect(
            try await fixture.headMemoryLosses() == [#""event":"head_memory_lost","outcome":"ok",\#(details)"#])
        let warning = try #require(fixture.checkpoints.warnings.first)
        #expect(warning.contains(Self.hang.message) && warning.contains("older copy") && warning.contains("next start"))
        // The next start tries again to store a head.
        await fixture.ledger.close()
        hsmToken.fail(at: nil)
        let next = try await self.fixture()
        await next.gate.compare()
        #expect(next.gate.position == .open && hsmToken.heads.count == 1)
        #expect(next.checkpoints.warnings.isEmpty)
        #expect(try await next.headMemoryLosses().count == 1)
    }

    @Test("counts an HSM token that remembered a head as out of order if storing the next one hangs at a start")
    func hangAfterRememberedHead() async throws {
        let first = try await fixture()
        await first.gate.compare()
        await first.ledger.close()
        let next = try await fixture()
        try await next.append()
        hsmToken.fail(at: .remember, with: Self.hang)
        #expect(await next.gate.compare() == .deadlineExceeded)
        #expect(next.gate.position == .waiting)
        #expect(next.gate.waitingReason.contains(Self.hang.message))
        #expect(await next.gate.compare() == .deadlineExceeded)
        #expect(hsmToken.failures == 2)
        hsmToken.fail(at: nil)
        await next.gate.compare()
        #expect(next.gate.position == .open)
        #expect(next.checkpoints.warnings.isEmpty)
    }

    @Test("tries again to store a head, and warns, if an HSM token that has remembered one hangs later")
    func hangsLater() async throws {
        let fixture = try await fixture()
        await fixture.gate.compare()
        let older = hsmToken.heads
        hsmToken.fail(at: .remember, with: Self.hang)
        for _ in 0..<2 {
            try await fixture.append()
            let refusal = await #expect(throws: Refusal.self) { try await fixture.checkpoints.seal() }
            #expect(refusal?.code == .deadlineExceeded && refusal?.details == Self.hang.message)
        }
        #expect(hsmToken.failures == 2 && hsmToken.heads == older)
        #expect(try await fixture.headMemoryLosses().isEmpty)
        #expect(fixture.checkpoints.warnings.first?.contains("older end") == true)
    }

    @Test("warns that an HSM token without data objects does not remember the end of the record")
    func missingDataObjectsWarned() async throws {
        hsmToken.forget()
        let fixture = try await fixture()
        await fixture.gate.compare()
        #expect(fixture.gate.position == .open)
        #expect(fixture.checkpoints.warnings.first?.contains("keeps no data objects") == true)
    }

    @Test("records once a start that an HSM token does not store the end of the record")
    func recordsLoss() async throws {
        hsmToken.forget()
        for start in 1...2 {
            let fixture = try await fixture()
            await fixture.gate.compare()
            for _ in 0..<2 {
                try await fixture.append()
                try await fixture.checkpoints.seal()
            }
            let losses = try await fixture.headMemoryLosses()
            #expect(losses.count == start)
            #expect(losses.allSatisfy { $0.contains(#""token":"primary","cause":"refused","message":"#) }, "\(losses)")
            await fixture.ledger.close()
        }
    }
}

extension RecordFixture {
    /// The members of each `head_memory_lost` record, from its event on and without its hash.
    fileprivate func headMemoryLosses() async throws -> [String] {
        try await ledger.records(AuditFilter(), order: .oldestFirst, after: nil, limit: 1000).records.compactMap {
            let line = String(decoding: $0.line, as: UTF8.self)
            guard let start = line.range(of: #""event":"head_memory_lost""#)?.lowerBound,
                let end = line.range(of: #","hash":"#)?.lowerBound
            else { return nil }
            return String(line[start..<end])
        }
    }
}
