import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

/// A clock that was ahead must not make the ledger forget claims of payment tokens that the window still admits. If an
/// earlier version forgot such claims, this can be corrected without a second release.
@Suite("Wrong clocks", .everyEngine)
struct WrongClockTests {
    private static let noon = LedgerFixture.noon
    private static let day = 86_400.0

    private func retention() throws -> ClaimRetention {
        try #require(
            ClaimRetention(retainClaims: .seconds(180 * 86_400), repeatFor: .seconds(3600), windows: [.seconds(300)]))
    }

    /// Returns a request for a payment token whose signing time is the time of the request.
    private func request(_ number: Int, _ fixture: LedgerFixture, signed: Date) throws -> Release {
        var request = try fixture.request(number, at: signed)
        request.signedAt = signed
        return request
    }

    @Test("prunes nothing by a clock a year ahead, and goes on releasing payment tokens of the true present")
    func yearAhead() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        #expect(try await ledger.release(request(1, fixture, signed: noon)) == .released)
        let outcome = try await ledger.prune(retention(), now: noon + 365 * Self.day)
        #expect(outcome == .clockUnconfirmed)
        #expect(try await ledger.times().forgottenBefore == nil)
        #expect(try await ledger.release(request(2, fixture, signed: noon + 60)) == .released)
        #expect(try await ledger.release(fixture.request(1, reference: nil)) == .replayed)
    }

    @Test("prunes by the newest claim, which Apple's signing time confirms, if the clock is less than a day ahead")
    func hoursAhead() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        let now = noon + 200 * Self.day
        #expect(try await ledger.release(request(1, fixture, signed: noon)) == .released)
        #expect(try await ledger.release(request(2, fixture, signed: now)) == .released)
        let outcome = try await ledger.prune(retention(), now: now + 0.9 * Self.day)
        #expect(outcome == .pruned(count: 1, before: now - 180 * Self.day))
        #expect(try await ledger.times().forgottenBefore == now - 90 * Self.day)
        #expect(try await ledger.release(request(3, fixture, signed: now)) == .released)
    }

    @Test("prunes again after the next release of a host that was idle for more than a year, without intervention")
    func idle() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        let now = noon + 400 * Self.day
        #expect(try await ledger.release(request(1, fixture, signed: noon)) == .released)
        #expect(try await ledger.prune(retention(), now: now) == .clockUnconfirmed)
        #expect(try await ledger.release(request(2, fixture, signed: now)) == .released)
        #expect(try await ledger.prune(retention(), now: now + 60) == .pruned(count: 1, before: now - 180 * Self.day))
        // An idle ledger with nothing to remove does not report a wrong clock.
        #expect(
            try await ledger.prune(retention(), now: now + 100 * Self.day)
                == .pruned(count: 0, before: now - 80 * Self.day))
    }

    private func change(_ clock: AdministrativeChange.ClockChange, at time: Date) -> AdministrativeChange {
        var change = AdministrativeChange(
            at: time,
            records: [
                AuditRecord(
                    time: AuditTime(time), event: .ledgerAcceptClock(LedgerClockAcceptance(reason: AuditReason("r"))))
            ])
        change.clock = clock
        return change
    }

    @Test("forgets only what was signed before the fence, and refuses repeats by the remaining claims")
    func accepted() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        #expect(try await ledger.release(request(1, fixture, signed: noon + 200)) == .released)
        let ahead = noon + 300 * Self.day
        try await fixture.setForgottenBefore(ahead)
        #expect(try await ledger.release(request(2, fixture, signed: noon + 301)) == .forgotten(before: ahead))
        let fence = noon + 300
        _ = try await ledger.apply(
            change(AdministrativeChange.ClockChange(forgottenBefore: ahead, servedFrom: fence), at: noon))
        #expect(try await ledger.times().forgottenBefore == fence)
        // A claim of this transaction may have been pruned, so the ledger refuses it.
        #expect(try await ledger.release(request(3, fixture, signed: fence - 0.001)) == .forgotten(before: fence))
        #expect(try await ledger.release(request(2, fixture, signed: fence)) == .released)
        var again = try request(1, fixture, signed: fence + 1)
        #expect(try await ledger.release(again) == .repeated)
        again = try fixture.request(1, reference: nil)
        #expect(try await ledger.release(again) == .replayed)
        // The fence remains in effect in a later process.
        await ledger.close()
        let later = try await fixture.reopened()
        #expect(try await later.times().forgottenBefore == fence)
        await later.close()
    }

    @Test("undoes an accepted clock and its records if claims were forgotten meanwhile")
    func meanwhile() async throws {
        let fixture = try await LedgerFixture()
        let noon = Self.noon
        try await fixture.setForgottenBefore(noon + 300 * Self.day)
        let head = try await fixture.ledger.head()
        await #expect(throws: LedgerFailure.timesConflict) {
            _ = try await fixture.ledger.apply(
                change(
                    AdministrativeChange.ClockChange(forgottenBefore: noon + 200 * Self.day, servedFrom: noon + 300),
                    at: noon))
        }
        #expect(try await fixture.ledger.times().forgottenBefore == noon + 300 * Self.day)
        #expect(try await fixture.ledger.head() == head)
    }

    @Test("ignores the times of records that existed when the clock was accepted")
    func newestRecord() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        #expect(try await ledger.times() == LedgerTimes())
        func append(_ time: Date) async throws {
            _ = try await ledger.append(AuditRecord(time: AuditTime(time), event: .stop))
        }
        try await append(noon + 365 * Self.day)
        try await append(noon)
        #expect(try await ledger.times().newestRecord == noon + 365 * Self.day)
        _ = try await ledger.apply(
            change(AdministrativeChange.ClockChange(forgottenBefore: nil, servedFrom: nil), at: noon + 1))
        #expect(try await ledger.times().newestRecord == noon + 1)
        try await append(noon + 2)
        #expect(try await ledger.times().newestRecord == noon + 2)
    }

    @Test("finds the newest release by claims and record, with pruned claims and without repeats and refusals")
    func newestRelease() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        #expect(try await ledger.newestRelease() == nil)
        func record(_ outcome: AuditOutcome, _ time: Date) -> AuditRecord {
            AuditRecord(time: AuditTime(time), event: .decrypt(reference: nil), outcome: outcome)
        }
        _ = try await ledger.append(record(.ok, noon))
        _ = try await ledger.append(record(.repeated, noon + 500))
        _ = try await ledger.append(record(.refused(.amountMismatch), noon + 600))
        #expect(try await ledger.newestRelease() == noon)
        #expect(try await ledger.release(request(1, fixture, signed: noon + 10)) == .released)
        #expect(try await ledger.newestRelease() == noon + 10)
    }

    @Test("keeps a claim that a slow clock made under a wider window past its payment token's return")
    func yearBehindWithoutWindow() async throws {
        let fixture = try await LedgerFixture()
        let (noon, ledger) = (Self.noon, fixture.ledger)
        var early = try fixture.request(1, reference: nil, at: noon - 365 * Self.day)
        early.signedAt = noon
        #expect(try await ledger.release(early) == .released)
        // From here on, the clock and the window are correct.
        #expect(try await ledger.release(request(2, fixture, signed: noon + 10)) == .released)
        #expect(
            try await ledger.prune(retention(), now: noon + 20)
                == .pruned(count: 0, before: noon + 10 - (180 + 365 - 90) * Self.day))
        var again = try fixture.request(1, reference: nil, at: noon + 30)
        again.signedAt = noon
        #expect(try await ledger.release(again) == .replayed)
        // The claim is pruned only long after the window stopped admitting its payment token.
        let later = noon + 100 * Self.day
        #expect(try await ledger.release(request(3, fixture, signed: later)) == .released)
        #expect(
            try await ledger.prune(retention(), now: later)
                == .pruned(count: 1, before: later - (180 + 365 - 90) * Self.day))
        again = try fixture.request(1, reference: nil, at: later)
        again.signedAt = noon
        #expect(try await ledger.release(again) == .forgotten(before: later - 90 * Self.day))
    }
}
