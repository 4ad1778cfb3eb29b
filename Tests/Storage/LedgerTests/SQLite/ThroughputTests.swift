import Dispatch
import Foundation
import GRDB
import TestSupport
import Testing

@testable import Ledger
@testable import SQLiteLedger

/// Measurements of throughput. They print figures, and compare ratios within one run. The bounds are wide, because
/// other programs may be running.
@Suite("Throughput", .serialized)
struct ThroughputTests {
    @Test("shares commits among 32 concurrent callers")
    func groupCommit() async throws {
        let fixture = try await LedgerFixture()
        let single = try await rate(fixture, callers: 1, releases: 300, from: 0)
        let before = fixture.events.committed.count
        let group = try await rate(fixture, callers: 32, releases: 1600, from: 1_000_000)
        let batches = fixture.events.committed.dropFirst(before)
        let mean = Double(batches.reduce(0, +)) / Double(max(batches.count, 1))
        print(
            "ledger: single commits \(Int(single))/s; 32 callers \(Int(group))/s in batches of "
                + "\((mean * 10).rounded() / 10) on average: \((group / single * 10).rounded() / 10) times")
        // The ratio and the size of a batch depend on the disk and on other programs, so they are only printed. Writes
        // that wait together must share one commit on every machine.
        let answers = try await fixture.inOneBatch(
            try (1...32).map { number in
                let release = try fixture.releasing(2_000_000 + number)
                return { @Sendable ledger in try await release(ledger).verdict }
            })
        for answer in answers { #expect(try answer.get() == .released) }
        #expect(fixture.events.committed.last == 32)
    }

    @Test("releases for a single caller in little more time than a bare commit of one row")
    func singleCaller() async throws {
        let fixture = try await LedgerFixture()
        let bare = try DatabaseQueue(path: fixture.directory.path("bare.sqlite"))
        try await bare.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE one (id INTEGER)")
        }
        var (releases, commits): ([Duration], [Duration]) = ([], [])
        for number in 1...100 {
            let release = try fixture.releasing(number)
            var began = ContinuousClock.now
            #expect(try await release(fixture.ledger).sequence == number)
            releases.append(began.duration(to: .now))
            began = .now
            try await bare.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO one VALUES (1)") }
            commits.append(began.duration(to: .now))
        }
        let (release, commit) = (releases.sorted()[50], commits.sorted()[50])
        print("ledger: a single caller's release takes \(release) by the median, a bare commit \(commit)")
        #expect(release < commit * 10 + .milliseconds(50))
    }

    @Test("commits during a long read, which sees no change")
    func longRead() async throws {
        let fixture = try await LedgerFixture()
        for number in 1...3 { _ = try await fixture.releasing(number)(fixture.ledger) }
        let (begun, mayEnd) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        async let counts = fixture.sqlite.connections.searcher.read { db in
            let before = try Int.fetchOne(db, sql: "SELECT count(*) FROM audit_record")
            begun.signal()
            mayEnd.wait()
            return [before, try Int.fetchOne(db, sql: "SELECT count(*) FROM audit_record")]
        }
        await withCheckedContinuation { (waiting: CheckedContinuation<Void, Never>) in
            DispatchQueue.global().async {
                begun.wait()
                waiting.resume()
            }
        }
        for number in 4...50 { #expect(try await fixture.releasing(number)(fixture.ledger).sequence == number) }
        #expect(try await fixture.ledger.head().sequence == 50)
        mayEnd.signal()
        #expect(try await counts == [3, 3])
    }

    /// Measures releases per second. Each caller makes its next request when it has its answer.
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
