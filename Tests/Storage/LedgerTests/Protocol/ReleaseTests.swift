import Foundation
import MerchantKeys
import PaymentToken
import TestSupport
import Testing

@testable import Ledger

@Suite("Releases", .everyEngine)
struct ReleaseTests {
    @Test("names its engine")
    func engine() async throws {
        let fixture = try await LedgerFixture()
        #expect(fixture.ledger.engine == StorageEngine.current.rawValue && fixture.ledger.node == "node-1")
    }

    @Test("releases a new transaction")
    func released() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
    }

    @Test("releases nothing for the first time that may only be repeated, and claims nothing")
    func onlyRepeats() async throws {
        let fixture = try await LedgerFixture()
        func onlyRepeat() throws -> Release {
            var release = try fixture.request(1)
            release.allowsFirstRelease = false
            return release
        }
        #expect(try await fixture.ledger.release(onlyRepeat()) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.release(onlyRepeat()) == .repeated)
    }

    @Test("releases exactly one of thirty simultaneous requests without a reference")
    func thirtyWithoutReference() async throws {
        let verdicts = try await thirty(reference: nil)
        #expect(verdicts.filter { $0 == .released }.count == 1)
        #expect(verdicts.filter { $0 == .replayed }.count == 29)
    }

    @Test("releases one of thirty simultaneous requests with one reference, and repeats the other 29")
    func thirtyWithReference() async throws {
        let verdicts = try await thirty(reference: 7)
        #expect(verdicts.filter { $0 == .released }.count == 1)
        #expect(verdicts.filter { $0 == .repeated }.count == 29)
    }

    @Test(
        "refuses a transaction as replayed for another caller, reference or content, or without a reference"
    )
    func replayed() async throws {
        let fixture = try await LedgerFixture()
        let ledger = fixture.ledger
        #expect(try await ledger.release(fixture.request(1)) == .released)
        #expect(try await ledger.release(fixture.request(1, caller: "other")) == .replayed)
        #expect(try await ledger.release(fixture.request(1, reference: 8)) == .replayed)
        #expect(try await ledger.release(fixture.request(1, reference: nil)) == .replayed)
        #expect(try await ledger.release(fixture.request(1, content: 10)) == .replayed)
        #expect(try await ledger.release(fixture.request(1)) == .repeated)
    }

    @Test("repeats nothing that was released without a reference, not even for a request with one")
    func noReferenceNoRepeat() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: 7)) == .replayed)
    }

    @Test("repeats until repeat_for has passed since the release, and not afterwards")
    func repeatWindow() async throws {
        let fixture = try await LedgerFixture(repeatFor: .seconds(60))
        let ledger = fixture.ledger
        let noon = LedgerFixture.noon
        #expect(try await ledger.release(fixture.request(1)) == .released)
        #expect(try await ledger.release(fixture.request(1, at: noon + 59)) == .repeated)
        #expect(try await ledger.release(fixture.request(1, at: noon + 60)) == .repeated)
        // The time for repeats is counted from the release, not from the last repeat.
        #expect(try await ledger.release(fixture.request(1, at: noon + 61)) == .replayed)
    }

    @Test("repeats nothing with repeat_for off, not even at the same moment")
    func noRepeats() async throws {
        let fixture = try await LedgerFixture(repeatFor: .zero)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .replayed)
    }

    @Test(
        "releases with an active key only",
        arguments: [KeyState.preActivation, .suspended, .deactivated, .compromised, .destroyed])
    func keyStates(state: KeyState) async throws {
        let fixture = try await LedgerFixture()
        let key = LedgerFixture.hash(2)
        try await fixture.ledger.store(LedgerFixture.record(key, state: state))
        #expect(try await fixture.ledger.release(fixture.request(1, key: key)) == .keyNotActive)
        // The refused request has claimed nothing.
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
    }

    @Test("releases with a deactivated key until its cut-off")
    func cutOff() async throws {
        let fixture = try await LedgerFixture()
        let noon = LedgerFixture.noon
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .deactivated, cutOff: noon))
        #expect(try await fixture.ledger.release(fixture.request(1, at: noon - 1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2, at: noon)) == .keyNotActive)
    }

    @Test("releases nothing with a key without a record")
    func unknownKey() async throws {
        let fixture = try await LedgerFixture()
        let request = try fixture.request(1, key: LedgerFixture.hash(99))
        #expect(try await fixture.ledger.release(request) == .keyNotActive)
    }

    @Test("refuses a repeat after its key was suspended")
    func suspendedRepeat() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        try await fixture.ledger.store(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .keyNotActive)
    }

    @Test("reaches a verdict even if the asking task is cancelled")
    func cancelled() async throws {
        let fixture = try await LedgerFixture()
        for number in 1...20 {
            let request = try fixture.request(number, reference: nil)
            let task = Task { try await fixture.ledger.release(request) }
            task.cancel()
            #expect(try await task.value == .released)
            #expect(try await fixture.ledger.release(request) == .replayed)
        }
    }

    private func thirty(reference: UInt8?) async throws -> [ReleaseVerdict] {
        let fixture = try await LedgerFixture()
        return try await withThrowingTaskGroup(of: ReleaseVerdict.self) { group in
            for _ in 0..<30 {
                let request = try fixture.request(1, reference: reference)
                group.addTask { try await fixture.ledger.release(request) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
    }
}

/// The limit of 100 repeats for each claim. Each repeat uses the HSM, so unlimited repeats would let a caller overload
/// it.
@Suite("The limit of repeats", .everyEngine)
struct RepeatLimitTests {
    private func useUp(_ fixture: LedgerFixture, _ number: Int, leaving left: Int = 0) async throws {
        #expect(try await fixture.ledger.release(fixture.request(number)) == .released)
        for _ in left..<Release.maximumRepeats {
            #expect(try await fixture.ledger.release(fixture.request(number)) == .repeated)
        }
    }

    @Test("refuses the caller after a hundred repeats, also after a restart, and counts each claim by itself")
    func hundred() async throws {
        let fixture = try await LedgerFixture()
        #expect(Release.maximumRepeats == 100)
        try await useUp(fixture, 1, leaving: 1)
        let transaction = try fixture.request(1).transactionId
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .yes)
        #expect(!fixture.ledger.isUsedUp(transaction))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        // The ledger keeps in memory that the claim is used up, so the next request needs neither the HSM nor the
        // database.
        #expect(fixture.ledger.isUsedUp(transaction))
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .tooOften)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeatedTooOften)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: 8)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .repeated)
        await fixture.ledger.close()
        let again = try await fixture.reopened()
        #expect(try await again.wouldRepeat(fixture.request(1)) == .tooOften)
        #expect(!again.isUsedUp(transaction))
        #expect(try await again.release(fixture.request(1)) == .repeatedTooOften)
        #expect(again.isUsedUp(transaction))
        await again.close()
    }

    @Test("records a refused repeat as a replay")
    func recorded() async throws {
        let fixture = try await LedgerFixture()
        try await useUp(fixture, 1)
        let request = try fixture.request(1)
        let recorded = try await fixture.ledger.release(request, recording: LedgerFixture.record(of: request))
        #expect(recorded == RecordedVerdict(.repeatedTooOften, sequence: 1))
        #expect(recorded.verdict.outcome == .refused(.transactionReplayed))
    }

    @Test("repeats at most a hundred of many requests at once")
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

    @Test("counts repeats that were opened and refused, and nothing that is no repeat")
    func refusedRepeats() async throws {
        let fixture = try await LedgerFixture()
        // The ledger has no claim of this transaction yet.
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        try await useUp(fixture, 1, leaving: 2)
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, caller: "other"))
        try await fixture.ledger.countRefusedRepeat(fixture.request(1, reference: 8))
        #expect(try await fixture.ledger.wouldRepeat(fixture.request(1)) == .yes)
        try await fixture.ledger.countRefusedRepeat(fixture.request(1))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeated)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .repeatedTooOften)
    }

    @Test("keeps a bounded list of exhausted claims, and drops the oldest")
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
