import Ledger
import Synchronization
import TestSupport
import Testing

@testable import Daemon

/// Whether the ledger answers: asked once at a time, and never waited for without end.
@Suite struct LedgerProbeTests {
    /// A ledger that answers when it is told to.
    private final class Looks: Sendable {
        private let state = Mutex((hangs: false, count: 0, waiting: [CheckedContinuation<Void, Never>]()))

        var count: Int { state.withLock { $0.count } }

        func begin() { state.withLock { $0.hangs = true } }

        func end() {
            let waiting = state.withLock { state in
                defer { state.waiting = [] }
                state.hangs = false
                return state.waiting
            }
            for look in waiting { look.resume() }
        }

        func look() async {
            await withCheckedContinuation { (look: CheckedContinuation<Void, Never>) in
                let passes = state.withLock { state in
                    state.count += 1
                    if state.hangs { state.waiting.append(look) }
                    return !state.hangs
                }
                if passes { look.resume() }
            }
        }
    }

    private let looks = Looks()

    private func probe(_ patience: Duration, _ faults: FaultLog) -> LedgerProbe {
        LedgerProbe(patience: patience, faults: faults) { [looks] () throws(LedgerFailure) in await looks.look() }
    }

    @Test("many who ask at once are served by one look")
    func oneLook() async throws {
        let probe = probe(.seconds(3600), FaultLog(logger: RecordFixture.quiet))
        looks.begin()
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<20 { group.addTask { await probe.fault() } }
            try await wait(for: "the look") { looks.count == 1 }
            looks.end()
            for try await fault in group { #expect(fault == nil) }
        }
        #expect(looks.count == 1)
    }

    @Test("while a look hangs all who ask hear so, no other look is made, and its end is heard of by itself")
    func hangs() async throws {
        let faults = FaultLog(logger: RecordFixture.quiet)
        let probe = probe(.milliseconds(20), faults)
        looks.begin()
        for _ in 0..<5 { #expect(await probe.fault() == LedgerProbe.slow) }
        #expect(looks.count == 1)
        // Refusals do not wait for the ledger meanwhile.
        #expect(faults.isOngoing(FaultLog.ledger))
        looks.end()
        try await wait(for: "the good news") { await probe.fault() == nil }
    }
}
