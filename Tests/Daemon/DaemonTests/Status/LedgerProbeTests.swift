import Ledger
import TestSupport
import Testing

@testable import Daemon

/// The probe of the ledger. One probe runs at a time, and requests wait for it for a limited time.
@Suite struct LedgerProbeTests {
    /// A latch that is open while the ledger responds.
    private let looks = Latch(isOpen: true)

    private func probe(_ patience: Duration, _ faults: FaultLog) -> LedgerProbe {
        LedgerProbe(patience: patience, faults: faults) { [looks] () throws(LedgerFailure) in await looks.pass() }
    }

    @Test("shares one probe among many simultaneous requests")
    func oneLook() async throws {
        let probe = probe(.seconds(3600), FaultLog(logger: RecordFixture.quiet))
        looks.close()
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { await probe.fault() } }
            try await wait(for: "the probe") { looks.arrivals == 1 }
            looks.open()
            for try await fault in group { #expect(fault == nil) }
        }
        #expect(looks.arrivals == 1)
    }

    @Test("answers all requests while a probe hangs, starts no other, and reports its end without a request")
    func hangs() async throws {
        let faults = FaultLog(logger: RecordFixture.quiet)
        let probe = probe(.milliseconds(20), faults)
        looks.close()
        for _ in 0..<5 { #expect(await probe.fault() == LedgerProbe.slow) }
        #expect(looks.arrivals == 1)
        // While this fault is ongoing, refusals do not wait for the ledger.
        #expect(faults.isOngoing(FaultLog.ledger))
        looks.open()
        try await wait(for: "the end of the fault") { await probe.fault() == nil }
    }
}
