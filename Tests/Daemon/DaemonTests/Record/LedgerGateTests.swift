import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing
import WorkerProtocol

@testable import UsageRecording

/// The comparison of the ledger with the HSM token before the daemon releases a payment.
@Suite struct LedgerGateTests {
    let directory: FreshDirectory
    let hsmToken = SoftwareAuditToken()
    var path: String { directory.path("ledger.sqlite") }

    init() throws {
        directory = try FreshDirectory()
    }

    /// Creates a ledger, uses it with the HSM token, and closes it. The ledger then has `records` records after the
    /// first audit checkpoint, and a second audit checkpoint that seals them.
    func served(_ records: Int = 3, at time: Date = RecordFixture.noon) async throws {
        let first = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: time)
        await first.gate.compare()
        #expect(first.gate.position == .open)
        try await first.append(records)
        try await first.checkpoints.seal()
        await first.ledger.close()
    }

    func copy(_ from: String, _ to: String) throws {
        for name in ["\(to)", "\(to)-wal", "\(to)-shm"] {
            try? FileManager.default.removeItem(atPath: directory.path(name))
        }
        try FileManager.default.copyItem(atPath: directory.path(from), toPath: directory.path(to))
    }

    /// Puts an older copy in place of the ledger. The HSM token remembers a later end of the record.
    func restoredFromOldCopy() async throws {
        try await served(1)
        try copy("ledger.sqlite", "old.sqlite")
        try await served(5)
        try copy("old.sqlite", "ledger.sqlite")
    }

    func code(_ body: () throws(Refusal) -> Void) -> RefusalCode? {
        do throws(Refusal) {
            try body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test("releases nothing before the HSM token has been read")
    func waitsForHSMToken() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        #expect(code(fixture.gate.admit) == .ledgerUnavailable)
        hsmToken.fail(at: .list)
        await fixture.gate.compare()
        #expect(fixture.gate.position == .waiting)
        hsmToken.fail(at: nil)
        await fixture.gate.compare()
        #expect(fixture.gate.position == .open)
        #expect(code(fixture.gate.admit) == nil)
    }

    @Test("explains, while the gate waits, the HSM token's objection and the remedy")
    func waitingReason() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let tooMany = "The HSM token holds more than 1024 audit keys, the most that are read. Remove some."
        hsmToken.fail(at: .list, with: WorkerFailure(.auditRefused, tooMany))
        #expect(!fixture.gate.waitingReason.contains(tooMany))
        await fixture.gate.compare()
        #expect(fixture.gate.position == .waiting)
        #expect(fixture.gate.waitingReason.contains(tooMany))
    }

    @Test("compares ledger and HSM token when the HSM token opens, and again while it serves")
    func comparesAtOpening() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let (openings, opened) = AsyncStream.makeStream(of: Void.self)
        hsmToken.fail(at: .list)
        let comparing = fixture.gate.start(openings: openings) { true }
        defer { comparing.cancel() }
        #expect(fixture.gate.position == .waiting && hsmToken.failures == 0)
        opened.yield()
        try await wait(for: "a second try") { hsmToken.failures >= 2 }
        #expect(fixture.gate.position == .waiting)
        hsmToken.fail(at: nil)
        try await wait(for: "a verdict") { fixture.gate.position == .open }
    }

    @Test("waits for the next opening while the HSM token does not serve")
    func waitsForOpening() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let (openings, opened) = AsyncStream.makeStream(of: Void.self)
        let checks = Shared(0)
        hsmToken.fail(at: .list)
        let comparing = fixture.gate.start(openings: openings) {
            checks.increment()
            return false
        }
        defer { comparing.cancel() }
        opened.yield()
        try await wait(for: "the check that it serves") { checks.current == 1 }
        #expect(hsmToken.failures == 1)
        hsmToken.fail(at: nil)
        opened.yield()
        try await wait(for: "a verdict") { fixture.gate.position == .open }
    }

    @Test("makes an audit key for a new ledger with a new HSM token, which remembers the record's end at once")
    func newLedgerAndHSMToken() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await fixture.gate.compare()
        #expect(hsmToken.keyCount == 1)
        #expect(try await fixture.entries.map(\.event) == ["audit_key_change"])
        let remembered = try #require(try await fixture.checkpoints.remembered())
        #expect(remembered.checkpoint.sequence == 1)
        guard case .intact = try await fixture.verdict() else {
            Issue.record("\(try await fixture.verdict())")
            return
        }
    }

    @Test("keeps serving the ledger that the HSM token remembers, with the same key")
    func continuesWithSameKey() async throws {
        try await served()
        let again = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        try await again.append()
        await again.gate.compare()
        #expect(again.gate.position == .open)
        #expect(hsmToken.keyCount == 1)
    }

    @Test("holds an older copy of the ledger, and releases nothing")
    func rolledBack() async throws {
        try await restoredFromOldCopy()
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await restored.gate.compare()
        guard case .rolledBack(let last, let remembered) = restored.gate.position.disagreement else {
            Issue.record("\(restored.gate.position)")
            return
        }
        #expect(last == 2 && remembered.sequence == 7)
        #expect(code(restored.gate.admit) == .ledgerUnavailable)
    }

    /// Makes an older copy of a ledger, with 20 additional records that the HSM token does not know.
    private func rolledBackFixture() async throws -> RecordFixture {
        try await restoredFromOldCopy()
        let grown = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        for _ in 0..<20 {
            // The event differs from that of the lost records, because equal records would make an equal chain.
            _ = try await grown.ledger.append(AuditRecord(time: AuditTime(RecordFixture.noon), event: .stop))
        }
        return grown
    }

    @Test("still recognises an older copy after refused starts have appended records to it")
    func refusedStarts() async throws {
        let grown = try await rolledBackFixture()
        await grown.gate.compare()
        guard case .rolledBack(let last, let remembered) = grown.gate.position.disagreement else {
            Issue.record("\(grown.gate.position)")
            return
        }
        #expect(last == 2 && remembered.sequence == 7)
    }

    @Test("holds, as another branch, a ledger that is sealed beyond the remembered head with other records")
    func forkedLedger() async throws {
        let grown = try await rolledBackFixture()
        let head = try await grown.ledger.head()
        let keyId = AuditDigest.of("an audit key".utf8)
        let checkpoint = try #require(head.checkpoint(at: AuditTime(RecordFixture.noon), keyId: keyId))
        let signature = try #require(CheckpointSignature(rawRepresentation: [UInt8](repeating: 1, count: 64)))
        try await grown.ledger.insert(checkpoint.signed { _ in signature })
        await grown.gate.compare()
        guard case .forked = grown.gate.position.disagreement else {
            Issue.record("\(grown.gate.position)")
            return
        }
    }

    @Test(
        "reports a new ledger with an HSM token that has served as a lost one, under any node name",
        arguments: [
            "node-1", "renamed",
        ])
    func lostLedger(node: String) async throws {
        try await served()
        for name in try FileManager.default.contentsOfDirectory(atPath: directory.path) {
            try FileManager.default.removeItem(atPath: directory.path(name))
        }
        let new = try await RecordFixture(ledger: path, node: node, hsmToken: hsmToken)
        await new.gate.compare()
        guard case .lost(let remembered, _) = new.gate.position.disagreement else {
            Issue.record("\(new.gate.position)")
            return
        }
        #expect(remembered?.sequence == 4)
        #expect(hsmToken.keyCount == 1, "no key is made in addition to one that another ledger trusts")
    }

    @Test("serves a restored ledger after its acceptance, which is recorded and remembered in the HSM token")
    func acceptedRestore() async throws {
        try await restoredFromOldCopy()
        // The daemon's clock is now a minute past the time of the head that the HSM token remembers.
        let later = RecordFixture.noon.addingTimeInterval(60)
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: later)
        await restored.gate.compare()
        let sequences = try await restored.gate.acceptRestore(
            reason: AuditReason("disk failed"), by: RecordFixture.root)
        #expect(sequences == (2, 7))
        #expect(restored.gate.position == .open)
        let record = try #require(try await restored.entries.last)
        #expect(record.event == "ledger_accept_restore")
        #expect(try await restored.ledger.times().restoreFence == later + 300)
        await restored.ledger.close()
        let next = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: later)
        await next.gate.compare()
        #expect(next.gate.position == .open)
    }

    @Test("sets the fence a window after the ledger end that the HSM token remembers if the clock is late")
    func acceptedWithClockBehind() async throws {
        try await restoredFromOldCopy()
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: RecordFixture.noon - 3600)
        await restored.gate.compare()
        _ = try await restored.gate.acceptRestore(reason: AuditReason("disk failed"), by: RecordFixture.root)
        #expect(try await restored.ledger.times().restoreFence == RecordFixture.noon + 300)
    }

    @Test("refuses an older ledger while a signing-time window is off, because nothing bounds the forgotten claims")
    func windowOff() async throws {
        try await restoredFromOldCopy()
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken, widestWindow: nil)
        await restored.gate.compare()
        let refusal = await #expect(throws: Refusal.self) {
            try await restored.gate.acceptRestore(reason: AuditReason("please"), by: RecordFixture.root)
        }
        #expect(refusal?.code == .invalidState && refusal?.message.contains("window") == true)
        #expect(restored.gate.position != .open)
        #expect(try await restored.ledger.times().restoreFence == nil)
    }

    @Test("takes over the HSM token's audit key when the successor of a lost ledger is accepted")
    func acceptedSuccessorOfLostLedger() async throws {
        try await served()
        try FileManager.default.removeItem(atPath: path)
        let later = RecordFixture.noon.addingTimeInterval(60)
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: later)
        await new.gate.compare()
        _ = try await new.gate.acceptRestore(reason: AuditReason("disk failed"), by: RecordFixture.root)
        #expect(new.gate.position == .open && hsmToken.keyCount == 1)
        guard case .intact = try await new.verdict() else {
            Issue.record("\(try await new.verdict())")
            return
        }
        await new.ledger.close()
        let next = try await RecordFixture(ledger: path, hsmToken: hsmToken, at: later)
        await next.gate.compare()
        #expect(next.gate.position == .open)
    }

    @Test("refuses an acceptance when ledger and HSM token agree")
    func nothingToAccept() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await fixture.gate.compare()
        let refusal = await #expect(throws: Refusal.self) {
            try await fixture.gate.acceptRestore(reason: AuditReason("why not"), by: RecordFixture.root)
        }
        #expect(refusal?.code == .invalidState)
    }

    @Test("sets the fence even without a finding, and continues the ledger after it")
    func withoutFinding() async throws {
        let fixture = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await fixture.gate.compare()
        let matter = try await fixture.gate.detectedRestore()
        #expect(matter.isEmpty)
        let sequences = try await fixture.gate.acceptRestore(
            matter, reason: AuditReason("power lost"), by: RecordFixture.root)
        #expect(sequences.hsmTokenSequence == nil)
        #expect(fixture.gate.position == .open)
        #expect(try await fixture.ledger.times().restoreFence == RecordFixture.noon + 300)
        #expect(try await fixture.entries.last?.event == "ledger_accept_restore")
    }

    @Test("reports an HSM token without the ledger's audit key as another one, which no acceptance resolves")
    func anotherHSMToken() async throws {
        try await served()
        let other = try await RecordFixture(ledger: path, hsmToken: SoftwareAuditToken())
        await other.gate.compare()
        guard case .anotherHSMToken(let keyId, nil) = other.gate.position.disagreement else {
            Issue.record("\(other.gate.position)")
            return
        }
        #expect(keyId != nil)
        await #expect(throws: Refusal.self) {
            try await other.gate.acceptRestore(reason: AuditReason("please"), by: RecordFixture.root)
        }
        #expect(other.gate.position != .open)
    }

    @Test("serves with an HSM token that keeps no data objects, and still detects a lost ledger by its audit key")
    func forgetfulToken() async throws {
        hsmToken.forget()
        try await served()
        try FileManager.default.removeItem(atPath: path)
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await new.gate.compare()
        guard case .lost(nil, let keyId?) = new.gate.position.disagreement else {
            Issue.record("\(new.gate.position)")
            return
        }
        #expect(new.gate.position.disagreement?.description.contains("keyId \(keyId.hex)") == true)
    }

    @Test(
        "uses the remembered head with the higher sequence, regardless of signing times")
    func clockAhead() async throws {
        // The first records were made while the clock was a day ahead. It has since been corrected.
        try await served(1, at: RecordFixture.noon.addingTimeInterval(86_400))
        let early = try #require(hsmToken.heads.first)
        try copy("ledger.sqlite", "old.sqlite")
        try await served(5)
        let late = try #require(hsmToken.heads.first)
        for heads in [[early, late], [late, early]] {
            // The HSM token has two heads. This can happen after an interruption, or if a holder of the PIN has stored
            // the earlier head again.
            hsmToken.replaceHeads(heads.map { ("node-1", $0) })
            try copy("old.sqlite", "ledger.sqlite")
            let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken)
            #expect(try await restored.checkpoints.remembered()?.line == late)
            await restored.gate.compare()
            guard case .rolledBack(2, let remembered) = restored.gate.position.disagreement else {
                Issue.record("\(restored.gate.position)")
                return
            }
            #expect(remembered.sequence == 7)
            await restored.ledger.close()
        }
    }
}
