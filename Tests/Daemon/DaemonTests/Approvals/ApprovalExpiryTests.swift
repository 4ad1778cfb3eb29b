import AuditChain
import Foundation
import Ledger
import TestSupport
import Testing

@testable import Daemon
@testable import UsageRecording

@Suite("Approvals that expire without a decision")
struct ApprovalExpiryTests {
    private let directory: FreshDirectory
    private let fixture: RecordFixture

    init() async throws {
        directory = try FreshDirectory()
        fixture = try await RecordFixture(ledger: directory.path("ledger.sqlite"), hsmToken: SoftwareAuditToken())
    }

    /// Requests an approval at noon. The approval expires an hour later.
    private func ask() async throws -> Approval {
        let approval = try await TwoPersonRule(people: 2, expire: .seconds(3600)).request(
            .keyAdopt, parameters: .of([1]), key: nil, keyState: nil, reason: AuditReason("r"),
            by: RecordRoutesFixture.auditor, at: RecordFixture.noon)
        _ = try await fixture.recorder.ask(approval, by: RecordRoutesFixture.auditor, for: AuditDraft())
        return approval
    }

    private func expiry(after seconds: Double) -> ApprovalExpiry {
        ApprovalExpiry(
            ledger: fixture.ledger, clock: WallClock { RecordFixture.noon.addingTimeInterval(seconds) },
            logger: RecordFixture.quiet)
    }

    @Test("are marked as expired in the ledger and in its audit record, once")
    func markedOnce() async throws {
        let approval = try await ask()
        await expiry(after: 3599).run()
        #expect(try await fixture.entries.map(\.event) == ["approval_request"])
        for _ in 0..<2 { await expiry(after: 3600).run() }
        #expect(try await fixture.ledger.approval(approval.identifier)?.status == .expired)
        let entries = try await fixture.entries
        #expect(entries.map(\.event) == ["approval_request", "approval_decision"])
        let expired = try #require(entries.last)
        #expect(expired.details["decision"]?.stringValue == "expire")
        #expect(expired.details["approval"]?.stringValue == approval.identifier.hex)
        #expect(expired.caller == nil)
    }

    @Test("are ended by the task at its start, and listed for thirty days from then")
    func endedByTask() async throws {
        let approval = try await ask()
        let task = expiry(after: 3600).start()
        try await wait(for: "the end") { try await fixture.ledger.approval(approval.identifier)?.status == .expired }
        task.cancel()
        let month = 30 * 86_400.0
        await expiry(after: 3600 + month).run()
        #expect(try await fixture.ledger.approvals(limit: 10).count == 1)
        let other = try await ask()
        await expiry(after: 3600 + month + 1).run()
        // The second approval expired too, and both are now forgotten.
        #expect(try await fixture.ledger.approvals(limit: 10).isEmpty)
        #expect(try await fixture.ledger.approval(other.identifier) == nil)
        #expect(try await fixture.entries.map(\.event).filter { $0 == "approval_decision" }.count == 2)
    }
}
