import Foundation
import PaymentToken
import Testing

@testable import Ledger

/// Each repeat is an operation of the HSM, so one claim has a hundred.
@Suite("The bound of repeats")
struct RepeatLimitTests {
    private func useUp(_ fixture: LedgerFixture, _ number: Int, leaving left: Int = 0) async throws {
        #expect(try await fixture.ledger.release(fixture.request(number)) == .released)
        for _ in left..<Release.mostRepeats {
            #expect(try await fixture.ledger.release(fixture.request(number)) == .repeated)
        }
    }

    @Test("after a hundred repeats the caller is refused, after a restart too, and other claims have theirs")
    func hundred() async throws {
        let fixture = try await LedgerFixture()
        #expect(Release.mostRepeats == 100)
        try await useUp(fixture, 1, leaving: 1)
        let transaction = try fixture.request(1).transactionId
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .yes)
        #expect(!fixture.ledger.isUsedUp(transaction))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        // Known at once, so the next one needs neither the HSM nor the database.
        #expect(fixture.ledger.isUsedUp(transaction))
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .tooOften)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeatedTooOften)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: 8)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .repeated)
        await fixture.ledger.close()
        let again = try await SQLiteLedger.open(fixture.settings)
        #expect(try await again.wouldRepeat(fixture.request(1)) == .tooOften)
        #expect(!again.isUsedUp(transaction))
        #expect(try await again.release(fixture.request(1)) == .repeatedTooOften)
        #expect(again.isUsedUp(transaction))
        await again.close()
    }

    @Test("a refused repeat is recorded as a replay")
    func recorded() async throws {
        let fixture = try await LedgerFixture()
        try await useUp(fixture, 1)
        let request = try fixture.request(1)
        let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        #expect(recorded == RecordedVerdict(.repeatedTooOften, sequence: 1))
        #expect(recorded.verdict.outcome == .refused(.transactionReplayed))
    }

    @Test("of many at once no more than a hundred are repeats")
    func simultaneous() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        let verdicts = try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for _ in 0..<250 {
                let request = try fixture.request(1)
                group.addTask { try await fixture.ledger.release(request) }
            }
            return try await group.reduce(into: [ReleaseVerdict]()) { $0.append($1) }
        }
        #expect(verdicts.count { $0 == .repeated } == 100)
        #expect(verdicts.count { $0 == .repeatedTooOften } == 150)
    }

    @Test("repeats that were opened and refused count as well; what is no repeat does not")
    func refusedRepeats() async throws {
        let fixture = try await LedgerFixture()
        // Nothing is claimed yet.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        try await useUp(fixture, 1, leaving: 2)
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, caller: "other"))
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, reference: 8))
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .yes)
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeatedTooOften)
    }

    @Test("what is known to be used up is bounded, and the oldest is let go")
    func bounded() throws {
        let known = UsedUpRepeats(capacity: 3)
        let transactions = try (0..<5).map { number in
            try #require(TransactionIdentifier(bytes: [UInt8](repeating: UInt8(number), count: 32)))
        }
        for transaction in transactions[..<3] + transactions[..<1] { known.insert(transaction) }
        #expect(transactions[..<3].allSatisfy(known.contains))
        known.insert(transactions[3])
        known.insert(transactions[4])
        #expect(transactions.map(known.contains) == [false, false, true, true, true])
    }
}
