import Foundation
import TestSupport
import Testing

@testable import Ledger

@Suite("Pruning claims", .everyEngine)
struct PruningTests {
    private static let day = Duration.seconds(86_400)

    @Test("prunes nothing while claims or any window have no end")
    func infinite() {
        #expect(ClaimRetention(retainClaims: nil, repeatFor: .zero, windows: [.seconds(300)]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: [nil]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: [.seconds(300), nil]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: []) == nil)
    }

    @Test("keeps a claim for the longest of retain_claims, repeat_for and twice every window")
    func longest() {
        let day = Self.day
        #expect(ClaimRetention(retainClaims: day * 180, repeatFor: day, windows: [.seconds(300)])?.age == day * 180)
        #expect(ClaimRetention(retainClaims: day, repeatFor: day * 2, windows: [.seconds(300)])?.age == day * 2)
        #expect(ClaimRetention(retainClaims: day, repeatFor: day, windows: [.seconds(300), day * 3])?.age == day * 6)
    }

    @Test("prunes any number of claims older than the retention, and keeps younger ones")
    func prunes() async throws {
        let fixture = try await LedgerFixture()
        let noon = LedgerFixture.noon
        for number in 0..<1_203 {
            #expect(try await fixture.ledger.release(fixture.request(number, at: noon)) == .released)
        }
        #expect(try await fixture.ledger.release(fixture.request(2000, at: noon + 10)) == .released)
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(1)]))
        #expect(try await fixture.ledger.release(fixture.request(2001, at: noon + 101)) == .released)
        #expect(try await fixture.ledger.prune(retention, now: noon + 100) == .pruned(count: 0, before: noon))
        #expect(try await fixture.ledger.prune(retention, now: noon + 101) == .pruned(count: 1_203, before: noon + 1))
        #expect(try await fixture.ledger.release(fixture.request(2000, reference: nil)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(5, reference: nil)) == .released)
    }

    @Test("pauses between two steps for twice as long as a step takes, and ends when it is cancelled")
    func pauses() async throws {
        let plan = ClaimRetention.Plan.forget(claimsBefore: 2, paymentTokensSignedBefore: 1)
        let times = Shared<[ContinuousClock.Instant]>([])
        let outcome = try await plan.carryOut { _, _, limit in
            times.change { $0.append(.now) }
            try? await Task.sleep(for: .milliseconds(20))
            return times.current.count < 3 ? limit : 7
        }
        #expect(outcome == .pruned(count: 1_007, before: Date(timeIntervalSince1970: 0.002)))
        let starts = times.current
        #expect(zip(starts, starts.dropFirst()).allSatisfy { $1 - $0 >= .milliseconds(60) } && starts.count == 3)

        let latch = Latch(isOpen: false)
        let cancelled = Task {
            try await plan.carryOut { _, _, limit in
                await latch.pass()
                return limit
            }
        }
        try await wait(for: "the first step") { latch.waiting == 1 }
        cancelled.cancel()
        latch.open()
        #expect(try await cancelled.value == .pruned(count: 500, before: Date(timeIntervalSince1970: 0.002)))
    }

    @Test("refuses a payment token from a time whose claims are forgotten, also with another window later")
    func forgotten() async throws {
        let fixture = try await LedgerFixture()
        let noon = LedgerFixture.noon
        var old = try fixture.request(1, reference: nil, at: noon)
        old.signedAt = noon
        #expect(try await fixture.ledger.release(old) == .released)
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(20)]))
        #expect(try await fixture.ledger.release(fixture.request(10, at: noon + 150)) == .released)
        #expect(try await fixture.ledger.prune(retention, now: noon + 150) == .pruned(count: 1, before: noon + 50))
        #expect(try await fixture.ledger.release(old) == .forgotten(before: noon + 100))
        // Claims from before noon + 50 were pruned. Their payment tokens were signed before noon + 100.
        var border = try fixture.request(2, reference: nil, at: noon + 151)
        border.signedAt = (noon + 100).addingTimeInterval(-0.001)
        #expect(try await fixture.ledger.release(border) == .forgotten(before: noon + 100))
        border.signedAt = noon + 100
        #expect(try await fixture.ledger.release(border) == .released)

        // Forgotten claims remain forgotten with another retention and in a later process.
        let longer = try #require(
            ClaimRetention(retainClaims: .seconds(140), repeatFor: .seconds(1), windows: [.seconds(20)]))
        #expect(try await fixture.ledger.release(fixture.request(11, at: noon + 300)) == .released)
        #expect(try await fixture.ledger.prune(longer, now: noon + 300) == .pruned(count: 2, before: noon + 160))
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        var third = try fixture.request(3, reference: nil, at: noon + 301)
        third.signedAt = noon + 229
        #expect(try await again.release(third) == .forgotten(before: noon + 230))
        third.signedAt = noon + 231
        #expect(try await again.release(third) == .released)
        await again.close()
    }
}
