import Foundation
import Payments
import TestSupport
import Testing

/// Payments that earlier versions stored under the digest of the client's spelling of the payment token.
@Suite struct SpellingConformance {
    /// An arrival whose payment token and request have separate digests for the normal form and the client's spelling.
    private func arrival(
        _ fixture: StoreFixture, normal: String = "normal", spelled: String = "spelled",
        request: String = "request", spelledRequest: String = "request"
    ) -> PaymentArrival {
        let plain = fixture.arrival(normal, request: request)
        return PaymentArrival(
            key: plain.key, purpose: .payment, requestDigest: plain.requestDigest,
            originalDigests: .init(
                tokenDigest: StoreFixture.digest(spelled), requestDigest: StoreFixture.digest(spelledRequest)),
            orderId: plain.orderId, statedTransaction: nil, attempt: plain.attempt)
    }

    @Test(
        "finds a payment by the digest of its client's spelling, and does not create a second one",
        arguments: StorageEngine.allCases)
    func found(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (first, _) = try await fixture.begun(fixture.arrival("spelled"))
        let reason = PaymentOutcome(reason: "not_connected")
        _ = try await fixture.store.end(first, as: .notSent, reason, at: fixture.now)
        let (second, after) = try await fixture.begun(arrival(fixture))
        #expect(second.key == first.key && after == [first.attempt.identifier])
        guard
            case .claimed(let paid) = try await fixture.store.claim(
                second, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        else { throw StoreFixture.NotBegun() }
        #expect(try await fixture.store.begin(arrival(fixture), at: fixture.now) == .known(paid))
        // A third spelling has another digest, so the store finds the payment by its transaction.
        let third = fixture.arrival("normal", stating: "transaction")
        #expect(try await fixture.store.begin(third, at: fixture.now) == .known(paid))
        #expect(try await fixture.store.payments(PaymentFilter()).count == 1)
    }

    @Test(
        "returns the payment that may have been sent if the payment token is stored in both spellings",
        arguments: StorageEngine.allCases)
    func both(_ engine: StorageEngine) async throws {
        for (refused, paid) in [("normal", "spelled"), ("spelled", "normal")] {
            let fixture = try await StoreFixture(engine)
            let other = try await fixture.begun(fixture.arrival(refused)).0
            _ = try await fixture.store.end(other, as: .refused, PaymentOutcome(), at: fixture.now)
            let submitting = try await fixture.submitting(fixture.arrival(paid))
            #expect(try await fixture.store.begin(arrival(fixture), at: fixture.now) == .known(submitting))
        }
    }

    @Test("recognises the same request in either spelling, and no other request", arguments: StorageEngine.allCases)
    func request(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival("normal", request: "spelled request"))
        let same = arrival(fixture, spelledRequest: "spelled request")
        #expect(try await fixture.store.begin(same, at: fixture.now) == .known(submitting))
        let other = arrival(fixture, spelledRequest: "another request")
        #expect(try await fixture.store.begin(other, at: fixture.now) == .usedDifferently)
    }
}
