import DaemonAPI
import Ledger
import TestSupport
import Testing

@testable import Daemon
@testable import UsageRecording

/// The clock's part in readiness, at times that the test sets.
@Suite struct ClockProbeTests {
    private static let behind = ReadinessAnswer.Reason(
        component: "clock", code: "transaction_replayed", message: "The clock is behind.")

    private let found = Shared<Result<[ReadinessAnswer.Reason], LedgerFailure>>(.success([]))
    private let probes = Shared(0)
    private let time = Shared(ContinuousClock.now)
    private let faults = FaultLog(logger: RecordFixture.quiet)
    private let probe: ClockProbe

    init() {
        let (found, probes, time) = (found, probes, time)
        probe = ClockProbe(
            faults: faults, now: { time.current },
            check: { () throws(LedgerFailure) in
                probes.increment()
                return try found.current.get()
            })
    }

    /// Returns the reasons of a probe that is made a second after the previous one and finds this result.
    private func reasons(_ result: Result<[ReadinessAnswer.Reason], LedgerFailure>) async -> [ReadinessAnswer.Reason] {
        found.change { $0 = result }
        time.change { $0 += .seconds(1) }
        return await probe.reasons()
    }

    @Test("reports a failed probe as the ledger's fault, and does not end the clock's fault")
    func failedProbe() async {
        #expect(await reasons(.success([Self.behind])) == [Self.behind])
        #expect(faults.isOngoing("clock"))
        let failed = await reasons(.failure(.unavailable(reason: "disk I/O error")))
        #expect(failed.map(\.component) == ["ledger"] && failed.map(\.code) == ["ledger_unavailable"])
        #expect(failed.first?.message.contains("disk I/O error") == true)
        #expect(faults.isOngoing("clock") && faults.isOngoing(FaultLog.ledger))
        #expect(await reasons(.success([])).isEmpty)
        #expect(!faults.isOngoing("clock"))
    }

    @Test("starts no probe while another is under way")
    func oneAtATime() async throws {
        let (latch, probes, now) = (Latch(isOpen: false), probes, ContinuousClock.now)
        let probe = ClockProbe(
            faults: faults, now: { now },
            check: {
                probes.increment()
                await latch.pass()
                return [Self.behind]
            })
        try await withThrowingTaskGroup(of: [ReadinessAnswer.Reason].self) { group in
            for _ in 0..<20 { group.addTask { await probe.reasons() } }
            try await wait(for: "a probe") { latch.waiting > 0 }
            // The pause gives the other requests time to arrive.
            try await Task.sleep(for: .milliseconds(50))
            latch.open()
            for try await reasons in group { #expect(reasons == [Self.behind]) }
        }
        #expect(probes.current == 1)
    }

    @Test("shares one probe, even a failed one, among all requests within a second")
    func sharedProbe() async {
        let failure = Result<[ReadinessAnswer.Reason], LedgerFailure>.failure(.unavailable(reason: "locked"))
        for _ in 0..<5 { #expect(await probe.reasons().isEmpty) }
        #expect(probes.current == 1)
        #expect(await reasons(failure).count == 1)
        for _ in 0..<5 { #expect(await probe.reasons().count == 1) }
        #expect(probes.current == 2)
    }
}
