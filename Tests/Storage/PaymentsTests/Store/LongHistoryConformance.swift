import Foundation
import Payments
import TestSupport
import Testing

/// Behaviour of every engine with a payment token that has many attempts.
@Suite struct LongHistoryConformance {
    @Test("prunes a long history in several calls, and its payment last", arguments: StorageEngine.allCases)
    func pruneInPieces(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let old = Date(timeIntervalSinceNow: -8 * 86_400)
        let (payment, _) = try await fixture.begun(fixture.arrival(), at: old)
        _ = try await fixture.store.end(payment, as: .refused, PaymentOutcome(), at: old)
        _ = try await fixture.begun(fixture.arrival("another"), at: old.addingTimeInterval(1))
        try await fixture.execute(
            """
            WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 3500)
            INSERT INTO payment_change (client, token_digest, state, attempt, at, by)
            SELECT client, token_digest, state, attempt, at, by FROM payment_change, numbers WHERE state = 'refused'
            """)
        #expect(try await fixture.store.prune() == 0)
        #expect(try await fixture.store.payments(PaymentFilter()).count == 2)
        var removed = 0
        for _ in 0..<10 where removed < 2 { removed += try await fixture.store.prune() }
        #expect(removed == 2)
        #expect(try await fixture.store.history(of: payment.key).isEmpty)
    }

    @Test(
        "permits one attempt a minute for a payment token after a hundred that sent nothing",
        arguments: StorageEngine.allCases)
    func attemptRate(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (store, now) = (fixture.store, fixture.now)
        func tried(at time: Date) async throws -> [[UInt8]] {
            let (payment, after) = try await fixture.begun(fixture.arrival(), at: time)
            _ = try await store.end(
                payment, as: after.count.isMultiple(of: 2) ? .refused : .notSent, PaymentOutcome(), at: time)
            return after
        }
        for number in 0..<100 { #expect(try await tried(at: now).count == number) }
        for (seconds, left) in [(0.0, 60), (20.5, 40), (59.9, 1)] {
            let time = now.addingTimeInterval(seconds)
            #expect(try await store.begin(fixture.arrival(), at: time) == .triedTooOften(seconds: left))
        }
        // The limit does not apply to another payment token, or to another client's attempt with this one.
        _ = try await fixture.begun(fixture.arrival("another"))
        _ = try await fixture.begun(fixture.arrival(client: "other"))
        #expect(try await tried(at: now.addingTimeInterval(60)).count == 100)
        let next = try await store.begin(fixture.arrival(), at: now.addingTimeInterval(61))
        #expect(next == .triedTooOften(seconds: 59))
        // An attempt is permitted although the last change has a later time, which a wrong clock may have caused.
        _ = try await tried(at: now.addingTimeInterval(-3600))
    }
}
