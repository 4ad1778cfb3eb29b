import Foundation
import MerchantKeys
import PaymentToken
import Testing

@testable import Ledger

@Suite("Releases")
struct ReleaseTests {
    @Test("A new transaction is released")
    func released() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2)) == .released)
    }

    @Test("Of thirty simultaneous requests without a reference exactly one releases")
    func thirtyWithoutReference() async throws {
        let verdicts = try await thirty(reference: nil)
        #expect(verdicts.filter { $0 == .released }.count == 1)
        #expect(verdicts.filter { $0 == .replayed }.count == 29)
    }

    @Test("Of thirty simultaneous requests with one reference one releases and 29 are repeats")
    func thirtyWithReference() async throws {
        let verdicts = try await thirty(reference: 7)
        #expect(verdicts.filter { $0 == .released }.count == 1)
        #expect(verdicts.filter { $0 == .repeated }.count == 29)
    }

    @Test(
        "The same transaction by another caller, with another reference, without one, or with another content is replayed"
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

    @Test("A release without a reference has no repeat, not even by a request with one")
    func noReferenceNoRepeat() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: nil)) == .replayed)
        #expect(try await fixture.ledger.release(fixture.request(1, reference: 7)) == .replayed)
    }

    @Test("A repeat is taken until repeat_for has passed since the release, and not afterwards")
    func repeatWindow() async throws {
        let fixture = try await LedgerFixture(repeatFor: .seconds(60))
        let ledger = fixture.ledger
        let noon = LedgerFixture.noon
        #expect(try await ledger.release(fixture.request(1)) == .released)
        #expect(try await ledger.release(fixture.request(1, at: noon + 59)) == .repeated)
        #expect(try await ledger.release(fixture.request(1, at: noon + 60)) == .repeated)
        // Counted from the release, not from the repeat before.
        #expect(try await ledger.release(fixture.request(1, at: noon + 61)) == .replayed)
    }

    @Test("With repeat_for off nothing is repeated, at the same moment neither")
    func noRepeats() async throws {
        let fixture = try await LedgerFixture(repeatFor: .zero)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(1)) == .replayed)
    }

    @Test(
        "Only an active key releases",
        arguments: [KeyState.preActivation, .suspended, .deactivated, .compromised, .destroyed])
    func keyStates(state: KeyState) async throws {
        let fixture = try await LedgerFixture()
        let key = LedgerFixture.hash(2)
        try await fixture.ledger.record(LedgerFixture.record(key, state: state))
        #expect(try await fixture.ledger.release(fixture.request(1, key: key)) == .keyNotActive)
        // Nothing was claimed.
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
    }

    @Test("A deactivated key releases until its cut-off")
    func cutOff() async throws {
        let fixture = try await LedgerFixture()
        let noon = LedgerFixture.noon
        try await fixture.ledger.record(LedgerFixture.record(fixture.key, state: .deactivated, cutOff: noon))
        #expect(try await fixture.ledger.release(fixture.request(1, at: noon - 1)) == .released)
        #expect(try await fixture.ledger.release(fixture.request(2, at: noon)) == .keyNotActive)
    }

    @Test("A key without a record does not release")
    func unknownKey() async throws {
        let fixture = try await LedgerFixture()
        let request = try fixture.request(1, key: LedgerFixture.hash(99))
        #expect(try await fixture.ledger.release(request) == .keyNotActive)
    }

    @Test("A key suspended after the release stops the repeat too")
    func suspendedRepeat() async throws {
        let fixture = try await LedgerFixture()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        try await fixture.ledger.record(LedgerFixture.record(fixture.key, state: .suspended))
        #expect(try await fixture.ledger.release(fixture.request(1)) == .keyNotActive)
    }

    @Test("Cancelling the task that asks leaves no verdict open")
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

    @Test("A long read does not keep a release waiting")
    func longRead() async throws {
        let fixture = try await LedgerFixture()
        let reading = AsyncStream.makeStream(of: Void.self)
        let finish = DispatchSemaphore(value: 0)
        let connections = fixture.ledger.connections
        async let read = connections.read { db in
            let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM claim")
            reading.continuation.yield()
            finish.wait()
            return count
        }
        var started = reading.stream.makeAsyncIterator()
        await started.next()
        #expect(try await fixture.ledger.release(fixture.request(1)) == .released)
        finish.signal()
        #expect(try await read == 0)
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
