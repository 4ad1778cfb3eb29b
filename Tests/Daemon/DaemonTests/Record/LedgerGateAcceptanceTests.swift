import AuditChain
import Foundation
import Refusals
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger
@testable import UsageRecording

/// Acceptances of a restored ledger that seem to fail.
extension LedgerGateTests {
    @Test("serves a restored ledger whose acceptance was committed only after its deadline, once the record has it")
    func lateAcceptance() async throws {
        try await restoredFromOldCopy()
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        let gate = restored.gate
        await gate.compare()
        let hang = Hang()
        defer { hang.end() }
        try await SQLiteFaults(beforeCommit: hang.pass).install(on: restored.ledger.writer.connection)
        let matter = try await gate.detectedRestore()
        hang.begin()
        let acceptance = Begun { () -> RefusalCode? in
            do throws(Refusal) {
                _ = try await gate.acceptRestore(matter, reason: AuditReason("disk failed"), by: RecordFixture.root)
                return nil
            } catch {
                return error.code
            }
        }
        try await hang.waitUntilBlocking()
        restored.ledger.deadlines.expire(asOf: .max - 1)
        #expect(try await acceptance.value() == .ledgerUnavailable)
        #expect(gate.position != .open)
        hang.end()
        try await wait(for: "the late commit") { try await restored.ledger.times().restoreFence != nil }
        try await gate.detect()
        #expect(gate.position == .open)
        #expect(try await restored.entries.count { $0.event == "ledger_accept_restore" } == 1)
        guard case .intact = try await restored.verdict() else {
            Issue.record("\(try await restored.verdict())")
            return
        }
    }

    @Test("does not serve a restored ledger whose acceptance was not committed")
    func lostAcceptance() async throws {
        try await restoredFromOldCopy()
        let restored = try await RecordFixture(ledger: path, hsmToken: hsmToken)
        await restored.gate.compare()
        let fails = Shared(true)
        try await SQLiteFaults(beforeCommit: { if fails.current { throw CancellationError() } }).install(
            on: restored.ledger.writer.connection)
        await #expect(throws: Refusal.self) {
            try await restored.gate.acceptRestore(reason: AuditReason("disk failed"), by: RecordFixture.root)
        }
        fails.change { $0 = false }
        try await restored.gate.detect()
        #expect(restored.gate.position != .open)
        _ = try await restored.gate.acceptRestore(reason: AuditReason("disk failed"), by: RecordFixture.root)
        #expect(restored.gate.position == .open)
    }
}
