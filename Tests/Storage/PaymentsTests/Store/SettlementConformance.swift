import Foundation
import Payments
import TestSupport
import Testing

/// Behaviour of every engine when a processor's answer contradicts the stored payment.
@Suite struct SettlementConformance {
    @Test(
        "keeps a state that a person set when an answer contradicts it, and adds the answer to the history",
        arguments: StorageEngine.allCases)
    func contradiction(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        _ = try await fixture.store.storeOutcome(
            submitting, as: .pending, PaymentOutcome(reason: "timeout"), at: fixture.now)
        let resolved = try await fixture.store.resolve(
            transaction: fixture.transaction().identifier, as: .error, by: "alice (1000)", reason: "no trace",
            at: fixture.now)
        let later = fixture.now.addingTimeInterval(7)
        let outcome = PaymentOutcome(authorizationCode: "A1B2C3", processorReference: "ref-7", processedAt: later)
        #expect(try await fixture.store.storeOutcome(submitting, as: .authorized, outcome, at: later) == resolved)
        #expect(try await fixture.store.payment(transaction: fixture.transaction().identifier) == resolved)
        let history = try await fixture.store.history(of: submitting.key)
        #expect(history.filter(\.isContradiction).count == 1)
        let last = try #require(history.last)
        #expect(last.isContradiction && last.state == .authorized && last.at == later && last.by == "gateway-1")
        #expect(last.reason == "contradicts_status; reference ref-7; code A1B2C3")
    }

    @Test(
        "refuses the late answer to an attempt that sent nothing, when a later attempt has its own",
        arguments: StorageEngine.allCases)
    func formerAttempt(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let former = try await fixture.submitting(fixture.arrival())
        _ = try await fixture.store.end(former, as: .notSent, PaymentOutcome(), at: fixture.now)
        let latter = try await fixture.submitting(fixture.arrival())
        let settled = try await fixture.store.storeOutcome(
            latter, as: .authorized, PaymentOutcome(authorizationCode: "A1B2C3"), at: fixture.now)
        let history = try await fixture.store.history(of: latter.key)
        for state: PaymentState in [.authorized, .declined] {
            await #expect(throws: PaymentStoreError.superseded(.authorized)) {
                try await fixture.store.storeOutcome(former, as: state, PaymentOutcome(), at: fixture.now)
            }
        }
        #expect(try await fixture.store.history(of: latter.key) == history)
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .known(settled))
    }

    /// Simulates a fail-over to a standby that lacks the claim's commit.
    @Test("restores a lost claim when its processor's answer arrives", arguments: StorageEngine.allCases)
    func lostClaim(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (received, _) = try await fixture.begun(fixture.arrival())
        // The store has lost the claim, but the gateway still has it in memory.
        var claimed = received
        (claimed.state, claimed.transaction) = (.submitting, try fixture.transaction())
        let outcome = PaymentOutcome(authorizationCode: "A1B2C3")
        let settled = try await fixture.store.storeOutcome(claimed, as: .authorized, outcome, at: fixture.now)
        #expect(settled.state == .authorized && settled.outcome == outcome)
        #expect(try await fixture.store.payment(transaction: fixture.transaction().identifier) == settled)
        #expect(
            try await fixture.store.history(of: received.key).map(\.state) == [
                .received, .decrypted, .submitting, .authorized,
            ])
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .known(settled))
    }

    @Test(
        "restores a payment that the store has lost when its processor's answer arrives",
        arguments: StorageEngine.allCases)
    func lostArrival(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let arrival = fixture.arrival()
        let claimed = Payment(
            key: arrival.key, purpose: .payment, requestDigest: arrival.requestDigest, orderId: arrival.orderId,
            state: .submitting, attempt: arrival.attempt, transaction: try fixture.transaction(),
            receivedAt: fixture.now, changedAt: fixture.now)
        let settled = try await fixture.store.storeOutcome(
            claimed, as: .declined, PaymentOutcome(reason: "do_not_honor"), at: fixture.now)
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .known(settled))
        #expect(
            try await fixture.store.history(of: arrival.key).map(\.state) == [
                .received, .decrypted, .submitting, .declined,
            ])
    }

    @Test(
        "refuses to restore a lost claim if another payment has claimed the transaction",
        arguments: StorageEngine.allCases
    )
    func lostClaimOfAnother(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        var (lost, _) = try await fixture.begun(fixture.arrival(client: "other"))
        _ = try await fixture.submitting(fixture.arrival())
        (lost.state, lost.transaction) = (.submitting, try fixture.transaction())
        let claimed = lost
        await #expect(throws: PaymentStoreError.superseded(.submitting)) {
            try await fixture.store.storeOutcome(claimed, as: .authorized, PaymentOutcome(), at: fixture.now)
        }
    }
}
