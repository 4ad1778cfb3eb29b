import Ledger
import TestSupport
import Testing

@testable import Daemon

/// Whether the ledger answers: asked once at a time, and never waited for without end.
@Suite struct LedgerProbeTests {
    /// The ledger answers while it is open.
    private let looks = Latch(isOpen: true)

    private func probe(_ patience: Duration, _ faults: FaultLog) -> LedgerProbe {
        LedgerProbe(patience: patience, faults: faults) { [looks] () throws(LedgerFailure) in await looks.pass() }
    }

    @Test("many who ask at once are served by one look")
    func oneLook() async throws {
        let probe = probe(.seconds(3600), FaultLog(logger: RecordFixture.quiet))
        looks.close()
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { await probe.fault() } }
            try await wait(for: "the look") { looks.arrivals == 1 }
            looks.open()
            for try await fault in group { #expect(fault == nil) }
        }
        #expect(looks.arrivals == 1)
    }

    @Test("while a look hangs all who ask hear so, no other look is made, and its end is heard of by itself")
    func hangs() async throws {
        let faults = FaultLog(logger: RecordFixture.quiet)
        let probe = probe(.milliseconds(20), faults)
        looks.close()
        for _ in 0..<5 { #expect(await probe.fault() == LedgerProbe.slow) }
        #expect(looks.arrivals == 1)
        // Refusals do not wait for the ledger meanwhile.
        #expect(faults.isOngoing(FaultLog.ledger))
        looks.open()
        try await wait(for: "the good news") { await probe.fault() == nil }
    }
}
