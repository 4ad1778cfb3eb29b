import AuditChain
import Foundation
import Ledger
import Refusals
import TestSupport
import Testing

@testable import Daemon
@testable import UsageRecording

@Suite("Acceptance of a ledger that the HSM token does not remember")
struct RestoreAcceptanceTests {
    private let directory: FreshDirectory
    private let hsmToken = SoftwareAuditToken()
    private var path: String { directory.path("ledger.sqlite") }

    init() throws { directory = try FreshDirectory() }

    /// Returns a new ledger with an HSM token that remembers five records of another ledger.
    private func lostLedger(widestWindow: Duration? = .seconds(300)) async throws -> RecordFixture {
        let former = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await former.gate.compare()
        try await former.append(5)
        try await former.checkpoints.seal()
        await former.ledger.close()
        try FileManager.default.removeItem(atPath: path)
        let new = try await RecordFixture(ledger: path, hsmToken: hsmToken, widestWindow: widestWindow)
        await new.gate.compare()
        return new
    }

    private func dryRunOutcome(_ fixture: RecordFixture) async throws(Refusal) -> RestoreAcceptance.Outcome {
        try await RestoreAcceptance(
            gate: fixture.gate, rule: TwoPersonRule(people: 2, expire: .seconds(60)), recorder: fixture.recorder,
            clock: WallClock { RecordFixture.noon }
        ).accept(
            reason: AuditReason("disk failed"), withoutFinding: false, by: RecordRoutesFixture.auditor, dryRun: true,
            draft: AuditDraft())
    }

    @Test("returns the positions of ledger and HSM token in a dry run, and changes nothing")
    func dryRun() async throws {
        let fixture = try await lostLedger()
        let before = try await fixture.ledger.head().sequence
        let outcome = try await dryRunOutcome(fixture)
        guard case .wouldAccept(let ledgerSequence, let remembered?) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(ledgerSequence == before && remembered > 5)
        #expect(fixture.gate.position.disagreement != nil)
        #expect(try await fixture.ledger.times().restoreFence == nil)
        #expect(try await fixture.ledger.approvals(limit: 10).isEmpty)
        #expect(try await fixture.ledger.head().sequence == before)
    }

    @Test("refuses a dry run where it would refuse the acceptance: with a window off, or with nothing to accept")
    func refusedDryRun() async throws {
        let unbounded = try await lostLedger(widestWindow: nil)
        let windowOff = await #expect(throws: Refusal.self) { try await dryRunOutcome(unbounded) }
        #expect(windowOff?.code == .invalidState && windowOff?.message.contains("window") == true)
        await unbounded.ledger.close()
        let agreeing = try await RecordFixture(ledger: directory.path("other.sqlite"), hsmToken: SoftwareAuditToken())
        await agreeing.gate.compare()
        let nothing = await #expect(throws: Refusal.self) { try await dryRunOutcome(agreeing) }
        #expect(nothing?.message.contains("nothing to accept") == true)
    }
}
