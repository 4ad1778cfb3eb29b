import Foundation
import Testing

@testable import Ledger

@Suite("Pruning claims")
struct PruningTests {
    private static let day = Duration.seconds(86_400)

    @Test("Without an end to claims or to any window nothing is ever pruned")
    func infinite() {
        #expect(ClaimRetention(retainClaims: nil, repeatFor: .zero, windows: [.seconds(300)]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: [nil]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: [.seconds(300), nil]) == nil)
        #expect(ClaimRetention(retainClaims: Self.day, repeatFor: .zero, windows: []) == nil)
    }

    @Test("A claim outlives retain_claims, repeat_for and twice every window, whichever is longest")
    func longest() {
        let day = Self.day
        #expect(ClaimRetention(retainClaims: day * 180, repeatFor: day, windows: [.seconds(300)])?.age == day * 180)
        #expect(ClaimRetention(retainClaims: day, repeatFor: day * 2, windows: [.seconds(300)])?.age == day * 2)
        #expect(ClaimRetention(retainClaims: day, repeatFor: day, windows: [.seconds(300), day * 3])?.age == day * 6)
    }

    @Test("Claims older than the retention go, however many, and younger ones stay")
    func prunes() async throws {
        let fixture = try await LedgerFixture()
        let noon = LedgerFixture.noon
        for number in 0..<1_203 {
            #expect(try await fixture.ledger.release(fixture.request(number, at: noon)) == .released)
        }
        #expect(try await fixture.ledger.release(fixture.request(2000, at: noon + 10)) == .released)
        let retention = try #require(
            ClaimRetention(retainClaims: .seconds(100), repeatFor: .seconds(1), windows: [.seconds(1)]))
        #expect(try await fixture.ledger.prune(retention, now: noon + 100) == 0)
        #expect(try await fixture.ledger.prune(retention, now: noon + 101) == 1_203)
        #expect(try await fixture.ledger.release(fixture.request(2000, reference: nil)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(5, reference: nil)) == .released)
    }
}
