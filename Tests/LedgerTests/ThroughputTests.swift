import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

/// Ratios of one run on one machine; the bounds are wide, since other programs may be running. Figures are printed.
@Suite("Throughput", .serialized)
struct ThroughputTests {
    @Test("32 concurrent callers share commits: they get more releases in the same time than one caller alone")
    func groupCommit() async throws {
        let fixture = try await LedgerFixture()
        let single = try await rate(fixture, callers: 1, releases: 300, from: 0)
        let before = fixture.events.committed.count
        let group = try await rate(fixture, callers: 32, releases: 6400, from: 1_000_000)
        let batches = fixture.events.committed.dropFirst(before)
        let mean = Double(batches.reduce(0, +)) / Double(max(batches.count, 1))
        print(
            "ledger: single commits \(Int(single))/s; 32 callers \(Int(group))/s in batches of "
                + "\((mean * 10).rounded() / 10) on average: \((group / single * 10).rounded() / 10) times")
        #expect(mean > 2)
        #expect(group > single)
    }

    @Test("While an export is read the commits take little longer than without")
    func longRead() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        _ = try await rate(fixture, callers: 64, releases: 4000, from: 0)
        let alone = try await rate(fixture, callers: 4, releases: 400, from: 1_000_000)
        let reading = Task {
            var exports = 0
            while !Task.isCancelled {
                for try await page in ledger.export() where Task.isCancelled || page.lines.isEmpty { return exports }
                exports += 1
            }
            return exports
        }
        let beside = try await rate(fixture, callers: 4, releases: 400, from: 2_000_000)
        reading.cancel()
        let exports = try await reading.value
        print(
            "ledger: 4 callers \(Int(alone))/s alone, \(Int(beside))/s while \(exports) exports were read: "
                + "\((beside / alone * 100).rounded()) %")
        // An export that held the writer up would leave a small fraction.
        #expect(beside > alone / 8)
    }

    /// Releases a second, each caller asking again when it is answered.
    private func rate(_ fixture: LedgerFixture, callers: Int, releases: Int, from start: Int) async throws -> Double {
        let ledger = fixture.ledger
        let began = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<callers {
                group.addTask {
                    for number in 0..<releases / callers {
                        let release = try fixture.releasing(start + caller * 10_000 + number)
                        guard try await release(ledger).verdict == .released else { throw LedgerFixture.Broken() }
                    }
                }
            }
            try await group.waitForAll()
        }
        let seconds = began.duration(to: .now) / .seconds(1)
        return Double(releases / callers * callers) / seconds
    }
}
