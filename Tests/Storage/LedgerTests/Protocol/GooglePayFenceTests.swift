import Foundation
import TestSupport
import Testing

@testable import Ledger

/// Messages of Google Pay after an accepted restore. A message counts as signed one lifetime before it expires.
@Suite("The fence of an accepted restore for Google Pay", .everyEngine)
struct GooglePayFenceTests {
    private static let window = Duration.seconds(300)

    private static func fixture() async throws -> LedgerFixture {
        let fixture = try await GooglePayClaimTests.fixture()
        try await fixture.ledger.update(widestWindow: window)
        return fixture
    }

    /// Accepts a restored ledger, and returns the fence.
    private static func accept(
        _ ledger: any Ledger, newestRelease: Date? = nil, at time: Date = LedgerFixture.noon
    ) async throws -> Date {
        try await ledger.apply(RestoreFenceTests.acceptance(newestRelease: newestRelease, at: time))
        return try #require(try await ledger.times().restoreFence)
    }

    private static func message(_ number: Int, signed: Date) throws -> Release {
        try GooglePayClaimTests.message(number, messageId: number, at: signed)
    }

    @Test("refuses messages that count as signed before the fence, releases later ones, and repeats those it knows")
    func bothSides() async throws {
        let fixture = try await Self.fixture()
        let ledger = fixture.ledger
        #expect(try await ledger.release(Self.message(1, signed: LedgerFixture.noon)) == .released)
        let fence = try await Self.accept(ledger)
        #expect(try await ledger.release(Self.message(2, signed: fence - 0.001)) == .beforeRestore(until: fence))
        #expect(try await ledger.release(Self.message(3, signed: fence)) == .released)
        // The refused message has left no claim.
        #expect(try await ledger.release(Self.message(2, signed: fence)) == .released)
        #expect(try await ledger.release(Self.message(1, signed: LedgerFixture.noon)) == .repeated)
        let known = try GooglePayClaimTests.message(4, messageId: 1, at: fence)
        #expect(try await ledger.release(known) == .replayed)
    }

    @Test("refuses a message from before the restore although the clock was six days slow at the acceptance")
    func slowClock() async throws {
        let fixture = try await Self.fixture()
        // The server's own clock is later than these times, so they are in its future.
        let present = Date(timeIntervalSince1970: 1_900_000_000)
        // The HSM token remembers the time of the last release, which the restored copy lacks.
        let fence = try await Self.accept(
            fixture.ledger, newestRelease: present, at: present.addingTimeInterval(-6 * 86_400))
        #expect(fence == present + 300)
        let lost = try Self.message(1, signed: present - 60)
        #expect(try await fixture.ledger.release(lost) == .beforeRestore(until: fence))
    }

    @Test("keeps the claim of a message that was released six days late under a slow clock, until it has expired")
    func slowClockPruning() async throws {
        let fixture = try await Self.fixture()
        let (ledger, day) = (fixture.ledger, 86_400.0)
        let present = LedgerFixture.noon
        // Twice the lifetime is the least retention with Google Pay.
        let retention = try #require(
            ClaimRetention(
                retainClaims: .seconds(14 * 86_400), repeatFor: .seconds(1),
                windows: [Self.window, .seconds(7 * 86_400)]))
        // The clock shows the time when the message was made, six days ago.
        let made = present - 6 * day
        #expect(try await ledger.release(Self.message(1, signed: made)) == .released)
        // The clock is set right, and payments of Apple Pay confirm it each day until the message expires.
        for days in 0...1 {
            let now = present + Double(days) * day
            #expect(try await ledger.release(fixture.request(days + 1, at: now)) == .released)
            #expect(try await ledger.prune(retention, now: now) == .pruned(count: 0, before: now - 14 * day))
            var again = try GooglePayClaimTests.message(1, messageId: 1, reference: 8, at: now)
            again.signedAt = made
            #expect(try await ledger.release(again) == .replayed)
        }
        // Nine days later the claim is pruned. A message with its signing time is then refused for that time.
        let late = present + 9 * day
        #expect(try await ledger.release(fixture.request(3, at: late)) == .released)
        #expect(try await ledger.prune(retention, now: late) == .pruned(count: 1, before: late - 14 * day))
        var again = try GooglePayClaimTests.message(1, messageId: 1, reference: 8, at: late)
        again.signedAt = made
        #expect(try await ledger.release(again) == .forgotten(before: late - 7 * day))
    }
}
