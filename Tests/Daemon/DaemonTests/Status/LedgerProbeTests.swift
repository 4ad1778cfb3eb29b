import Ledger
import TestSupport
import Testing

@testable import Daemon
@testable import UsageRecording

/// The probe of the ledger. One probe runs at a time, and requests wait for it for a limited time.
@Suite struct LedgerProbeTests {
    /// A latch that is open while the ledger responds.
    private let latch = Latch(isOpen: true)

    private func probe(_ patience: Duration, _ faults: FaultLog) -> LedgerProbe {
        LedgerProbe(patience: patience, faults: faults) { [latch] () throws(LedgerFailure) in await latch.pass() }
    }

    @Test("shares one probe among many simultaneous requests")
    func sharedProbe() async throws {
        let probe = probe(.seconds(3600), FaultLog(logger: RecordFixture.quiet))
        latch.close()
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { await probe.fault() } }
            try await wait(for: "the probe") { latch.arrivals == 1 }
            latch.open()
            for try await fault in group { #expect(fault == nil) }
        }
        #expect(latch.arrivals == 1)
    }

    @Test("answers all requests while a probe hangs, starts no other one, and ends the fault when the probe ends")
    func hangingProbe() async throws {
        let faults = FaultLog(logger: RecordFixture.quiet)
        let probe = probe(.milliseconds(20), faults)
        latch.close()
        for _ in 0..<5 { #expect(await probe.fault() == LedgerProbe.slow) }
        #expect(latch.arrivals == 1)
        // While this fault is ongoing, refusals do not wait for the ledger.
        #expect(faults.isOngoing(FaultLog.ledger))
        latch.open()
        try await wait(for: "the end of the fault") { await probe.fault() == nil }
    }
}
