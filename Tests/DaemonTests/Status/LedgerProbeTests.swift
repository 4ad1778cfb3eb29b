import Ledger
import TestSupport
import Testing

@testable import Daemon

/// Whether the ledger answers: asked once at a time, and never waited for without end.
@Suite struct LedgerProbeTests {
    /// The ledger answers when this does not hang.
    private let hang = HangingCalls()

    private func probe(_ patience: Duration, _ faults: FaultLog) -> LedgerProbe {
        LedgerProbe(patience: patience, faults: faults) { [hang] () throws(LedgerFailure) in await hang.pass() }
    }

    @Test("many who ask at once are served by one look")
    func oneLook() async throws {
        let probe = probe(.seconds(3600), FaultLog(logger: RecordFixture.quiet))
        hang.begin()
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { await probe.fault() } }
            try await wait(for: "the look") { hang.calls == 1 }
            hang.end()
            for try await fault in group { #expect(fault == nil) }
        }
        #expect(hang.calls == 1)
    }

    @Test("while a look hangs all who ask hear so, no other look is made, and its end is heard of by itself")
    func hangs() async throws {
        let faults = FaultLog(logger: RecordFixture.quiet)
        let probe = probe(.milliseconds(20), faults)
        hang.begin()
        for _ in 0..<5 { #expect(await probe.fault() == LedgerProbe.slow) }
        #expect(hang.calls == 1)
        // Refusals do not wait for the ledger meanwhile.
        #expect(faults.isOngoing(FaultLog.ledger))
        hang.end()
        try await wait(for: "the good news") { await probe.fault() == nil }
    }
}
