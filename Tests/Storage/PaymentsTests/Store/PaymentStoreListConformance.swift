import Foundation
import Payments
import TestSupport
import Testing

extension PaymentStoreConformance {
    @Test(
        "lists payments by client, state, processor and time, the newest first", arguments: StorageEngine.allCases)
    func lists(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        _ = try await fixture.begun(fixture.arrival("a", client: "one"))
        _ = try await fixture.begun(fixture.arrival("b", client: "two"), at: fixture.now.addingTimeInterval(1))
        _ = try await fixture.submitting(fixture.arrival("c", client: "one"))
        #expect(try await fixture.store.payments(PaymentFilter()).count == 3)
        #expect(try await fixture.store.payments(PaymentFilter()).first?.key.client == "two")
        #expect(try await fixture.store.payments(PaymentFilter(client: "one")).count == 2)
        #expect(try await fixture.store.payments(PaymentFilter(states: [.submitting])).map(\.key.client) == ["one"])
        let processor = try #require(fixture.transaction().processor)
        let submitted = PaymentFilter(states: [.submitting, .pending], processor: processor)
        #expect(try await fixture.store.payments(submitted).map(\.key.client) == ["one"])
        #expect(try await fixture.store.payments(PaymentFilter(processor: "another")).isEmpty)
        #expect(
            try await fixture.store.payments(PaymentFilter(since: fixture.now.addingTimeInterval(1))).map(\.key.client)
                == ["two"])
        #expect(try await fixture.store.payments(PaymentFilter(limit: 2)).count == 2)
        #expect(try await fixture.store.payments(PaymentFilter(oldestFirst: true)).last?.key.client == "two")
    }

    @Test(
        "lists page by page in both orders, even if payments have the same time",
        arguments: StorageEngine.allCases)
    func pages(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        for (number, seconds) in [0.0, 0, 0, 1, 1, 2, 3].enumerated() {
            _ = try await fixture.begun(
                fixture.arrival("token \(number)", client: number % 2 == 0 ? "even" : "odd"),
                at: fixture.now.addingTimeInterval(seconds))
        }
        for oldestFirst in [true, false] {
            let all = try await fixture.store.payments(PaymentFilter(oldestFirst: oldestFirst))
            var (paged, place): ([Payment], PaymentFilter.Place?) = ([], nil)
            while paged.count < 7 {
                let page = try await fixture.store.payments(
                    PaymentFilter(limit: 2, oldestFirst: oldestFirst, after: place))
                guard let last = page.last else { break }
                paged += page
                place = PaymentFilter.Place(of: last)
            }
            #expect(paged == all && all.count == 7)
        }
    }

    @Test(
        "shortens a processor's texts and removes unprintable characters before it stores them",
        arguments: StorageEngine.allCases)
    func boundedOutcome(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        let outcome = PaymentOutcome(
            reason: String(repeating: "x", count: 5000), authorizationCode: "A\u{0}\nB", processorReference: "\u{7}")
        let settled = try await fixture.store.storeOutcome(submitting, as: .declined, outcome, at: fixture.now)
        #expect(settled.outcome?.reason == String(repeating: "x", count: 100))
        #expect(settled.outcome?.authorizationCode == "AB")
        #expect(settled.outcome?.processorReference == nil)
    }

    @Test(
        "removes payments after seven days, with their history, if they have no transaction",
        arguments: StorageEngine.allCases)
    func prune(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let store = fixture.store
        let days = { (count: Double) in Date(timeIntervalSinceNow: -count * 86_400) }
        /// Makes a payment that was received `age` days ago and, unless `state` is nil, ended at that time in that
        /// state.
        func ended(_ token: String, as state: PaymentState?, _ age: Double) async throws -> Payment {
            let (payment, _) = try await fixture.begun(fixture.arrival(token), at: days(age))
            guard let state else { return payment }
            return try await store.end(payment, as: state, PaymentOutcome(reason: "why"), at: days(age))
        }
        let removable = [
            try await ended("refused", as: .refused, 7.01), try await ended("not sent", as: .notSent, 7.01),
            try await ended("received", as: nil, 400),
        ]
        var kept = [
            try await ended("young", as: .refused, 6.99), try await ended("just not sent", as: .notSent, 6.99),
        ]
        // This payment was received long ago, and a new attempt was refused today.
        let (again, _) = try await fixture.begun(fixture.arrival("again"), at: days(30))
        kept.append(try await store.end(again, as: .refused, PaymentOutcome(), at: days(0)))
        for (number, state) in [PaymentState.refused, .submitting, .submitting].enumerated() {
            let (payment, _) = try await fixture.begun(fixture.arrival("decrypted \(number)"), at: days(400))
            guard
                case .claimed(let claimed) = try await store.claim(
                    payment, fixture.transaction("decrypted \(number)"), as: state, nil, at: days(400))
            else { throw StoreFixture.NotBegun() }
            kept.append(claimed)
        }
        // The last payment ended as not_sent after paytokend had decrypted it.
        let submitting = try #require(kept.last)
        kept[kept.count - 1] = try await store.end(submitting, as: .notSent, PaymentOutcome(), at: days(400))
        #expect(try await store.prune() == 3)
        #expect(try await store.prune() == 0)
        #expect(
            Set(try await store.payments(PaymentFilter()).map(\.key)) == Set(kept.map(\.key)))
        for payment in removable { #expect(try await store.history(of: payment.key).isEmpty) }
        for payment in kept { #expect(try await store.history(of: payment.key).count >= 2) }
        // After its removal the payment token is new to the store, so no earlier attempt is listed as harmless.
        #expect(try await fixture.begun(fixture.arrival("refused"), at: days(0)).after.isEmpty)
    }

    @Test(
        "refuses a payment token that a former client of the same name has used, in any state",
        arguments: StorageEngine.allCases)
    func formerClient(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        func arrival(_ token: String, stating transaction: String? = nil, since: TimeInterval) -> PaymentArrival {
            let arrival = fixture.arrival(token, stating: transaction)
            return PaymentArrival(
                key: arrival.key, purpose: .payment, requestDigest: arrival.requestDigest, orderId: nil,
                statedTransaction: arrival.statedTransaction, since: fixture.now.addingTimeInterval(since),
                attempt: arrival.attempt)
        }
        let submitting = try await fixture.submitting(fixture.arrival("paid"))
        _ = try await fixture.store.end(
            fixture.begun(fixture.arrival("refused")).0, as: .refused, PaymentOutcome(), at: fixture.now)
        let later = fixture.now.addingTimeInterval(100)
        for token in ["paid", "refused"] {
            #expect(try await fixture.store.begin(arrival(token, since: 1), at: later) == .usedBefore)
        }
        let otherForm = arrival("another form", stating: "transaction", since: 1)
        #expect(try await fixture.store.begin(otherForm, at: later) == .usedBefore)
        #expect(try await fixture.store.payments(PaymentFilter()).count == 2)
        #expect(try await fixture.store.begin(arrival("paid", since: 0), at: later) == .known(submitting))
    }

    @Test(
        "keeps the digest of an account number until the payment's final state is known",
        arguments: StorageEngine.allCases)
    func accountDigest(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let digest = [UInt8](repeating: 7, count: PaymentTransaction.accountDigestByteCount)
        let plain = try fixture.transaction()
        let transaction = PaymentTransaction(
            identifier: plain.identifier, merchantIdentifier: plain.merchantIdentifier, amount: plain.amount,
            processor: plain.processor, accountDigest: digest)
        let (received, _) = try await fixture.begun(fixture.arrival())
        guard
            case .claimed(let submitting) = try await fixture.store.claim(
                received, transaction, as: .submitting, nil, at: fixture.now)
        else { throw StoreFixture.NotBegun() }
        #expect(submitting.transaction?.accountDigest == digest)
        _ = try await fixture.store.storeOutcome(submitting, as: .pending, PaymentOutcome(), at: fixture.now)
        #expect(try await fixture.store.payment(transaction: plain.identifier)?.transaction?.accountDigest == digest)
        _ = try await fixture.store.storeOutcome(submitting, as: .captured, PaymentOutcome(), at: fixture.now)
        #expect(try await fixture.store.payment(transaction: plain.identifier)?.transaction == plain)
    }
}
