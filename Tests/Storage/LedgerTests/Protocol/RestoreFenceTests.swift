import AuditChain
import Foundation
import TestSupport
import Testing

@testable import Ledger

/// The fence of an accepted restored ledger. Such a ledger lacks the latest claims, so transactions that may have been
/// claimed are not released again.
@Suite("The fence of an accepted restore", .everyEngine)
struct RestoreFenceTests {
    private func request(
        _ number: Int, _ fixture: LedgerFixture, signed: Date, reference: UInt8? = 7
    ) throws -> Release {
        var request = try fixture.request(number, reference: reference, at: signed)
        request.signedAt = signed
        return request
    }

    /// The change that accepts a restored ledger.
    static func acceptance(newestRelease: Date? = nil, at time: Date = LedgerFixture.noon) -> AdministrativeChange {
        var change = AdministrativeChange(
            at: time,
            records: [
                AuditRecord(
                    time: AuditTime(time),
                    event: .ledgerAcceptRestore(
                        LedgerRestore(ledgerSequence: 0, hsmTokenSequence: 7, reason: AuditReason("disk lost"))))
            ])
        change.restore = .accept([], newestRelease: newestRelease, approval: nil)
        return change
    }

    private func fence(of ledger: any Ledger) async throws -> Date {
        try #require(try await ledger.times().restoreFence)
    }

    @Test("refuses payment tokens signed before the acceptance and the widest window, and releases later ones")
    func refused() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        try await ledger.update(widestWindow: .seconds(300))
        let before = Date()
        #expect(try await ledger.release(request(1, fixture, signed: LedgerFixture.noon)) == .released)
        try await ledger.apply(Self.acceptance())
        let fence = try await fence(of: ledger)
        // A ledger file uses the daemon's clock, which is noon in this test. A server uses its own clock.
        switch StorageEngine.current {
        case .sqlite: #expect(fence == LedgerFixture.noon + 300)
        case .postgresql: #expect(fence >= before + 300 && fence <= Date() + 301)
        }
        let late = try request(2, fixture, signed: fence - 0.001)
        #expect(try await ledger.release(late) == .beforeRestore(until: fence))
        #expect(try await ledger.release(request(3, fixture, signed: fence)) == .released)
        // Transactions that the restored ledger knows are decided as before.
        #expect(try await ledger.release(request(1, fixture, signed: LedgerFixture.noon)) == .repeated)
        let another = try request(1, fixture, signed: LedgerFixture.noon, reference: nil)
        #expect(try await ledger.release(another) == .replayed)
        let recorded = try await ledger.release(late, recording: LedgerFixture.record(of: late))
        let last = try #require(try await ledger.everyEntry().last)
        #expect(recorded.sequence == last.sequence && last.outcome == "transaction_replayed")
        // The fence remains in effect in a later process.
        await ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.release(late) == .beforeRestore(until: fence))
        await again.close()
    }

    @Test("records the fence with the acceptance")
    func recorded() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.update(widestWindow: .seconds(60))
        try await fixture.ledger.apply(Self.acceptance())
        let fence = try await fence(of: fixture.ledger)
        let page = try await fixture.ledger.records(AuditFilter(), order: .newestFirst, after: nil, limit: 1)
        let line = String(decoding: try #require(page.records.first).line, as: UTF8.self)
        #expect(line.contains("\"servedFrom\":\"\(AuditTime(fence).text)\""), "\(line)")
    }

    @Test("accepts and records nothing while a window is off or was never reported")
    func windowOff() async throws {
        let fixture = try await LedgerFixture()
        for window in [nil, Duration.seconds(300), nil] {
            if let window {
                try await fixture.ledger.update(widestWindow: window)
                continue
            }
            try await fixture.ledger.update(widestWindow: nil)
            await #expect(throws: LedgerFailure.windowOff(nodes: ["node-1"])) {
                try await fixture.ledger.apply(Self.acceptance())
            }
        }
        #expect(try await fixture.ledger.times().restoreFence == nil)
        #expect(try await fixture.ledger.head().sequence == 0)
    }

    @Test("puts the fence a window after the last release if the clock is earlier than that")
    func clockBehind() async throws {
        let fixture = try await LedgerFixture()
        try await fixture.ledger.update(widestWindow: .seconds(300))
        let newest = Date(timeIntervalSince1970: 1_900_000_000)
        try await fixture.ledger.apply(Self.acceptance(newestRelease: newest))
        #expect(try await fence(of: fixture.ledger) == newest + 300)
        // The fence is never lowered.
        try await fixture.ledger.apply(Self.acceptance())
        #expect(try await fence(of: fixture.ledger) == newest + 300)
    }

    @Test("keeps the fence when a clock is accepted, and what is forgotten when a fence is set")
    func apart() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        try await ledger.update(widestWindow: .seconds(300))
        let (forgotten, newest) = (LedgerFixture.noon + 1_000_000, LedgerFixture.noon + 500_000)
        try await fixture.setForgottenBefore(forgotten)
        try await ledger.apply(Self.acceptance(newestRelease: newest))
        #expect(try await ledger.times().forgottenBefore == forgotten)
        var change = AdministrativeChange(
            at: LedgerFixture.noon,
            records: [
                AuditRecord(
                    time: AuditTime(LedgerFixture.noon),
                    event: .ledgerAcceptClock(LedgerClockAcceptance(reason: AuditReason("r"))))
            ])
        change.clock = .init(forgottenBefore: forgotten, servedFrom: LedgerFixture.noon)
        try await ledger.apply(change)
        let times = try await ledger.times()
        #expect(times.forgottenBefore == LedgerFixture.noon && times.restoreFence == newest + 300)
        let release = try request(1, fixture, signed: newest)
        #expect(try await ledger.release(release) == .beforeRestore(until: newest + 300))
    }

    @Test("stores which keys a node's HSM tokens hold; the last report counts")
    func keyHolders() async throws {
        let fixture = try await LedgerFixture()
        let (first, second) = (LedgerFixture.hash(1), LedgerFixture.hash(2))
        #expect(try await fixture.ledger.keyHolders().isEmpty)
        try await fixture.ledger.update(heldKeys: [first, second])
        let holders = try await fixture.ledger.keyHolders()
        #expect(holders.mapValues { $0.map(\.node) } == [first: ["node-1"], second: ["node-1"]])
        try await fixture.ledger.update(heldKeys: [second])
        #expect(try await fixture.ledger.keyHolders().keys.map { $0 } == [second])
        try await fixture.ledger.update(heldKeys: [])
        #expect(try await fixture.ledger.keyHolders().isEmpty)
    }
}
