import Foundation
import Payments
import TestSupport
import Testing

/// Behaviour that every engine must have.
@Suite struct PaymentStoreConformance {
    @Test(
        "records each step of a payment from received to its final state in the history",
        arguments: StorageEngine.allCases)
    func wholeWay(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (store, now) = (fixture.store, fixture.now)
        let (received, after) = try await fixture.begun(fixture.arrival())
        #expect(received.state == .received)
        #expect(after.isEmpty)
        #expect(received.transaction == nil)

        let transaction = try fixture.transaction()
        let claim = try await store.claim(received, transaction, as: .submitting, nil, at: now)
        guard case .claimed(let submitting) = claim else {
            Issue.record("not claimed: \(claim)")
            return
        }
        #expect(submitting.state == .submitting)
        #expect(submitting.transaction == transaction)

        let outcome = PaymentOutcome(authorizationCode: "A1B2C3", processorReference: "ref-1", processedAt: now)
        let authorized = try await store.storeOutcome(submitting, as: .authorized, outcome, at: now)
        #expect(authorized.state == .authorized)
        #expect(authorized.outcome == outcome)
        #expect(try await store.payment(transaction: transaction.identifier) == authorized)
        #expect(
            try await store.history(of: authorized.key).map(\.state) == [
                .received, .decrypted, .submitting, .authorized,
            ]
        )
        #expect(try await store.history(of: authorized.key).allSatisfy { $0.by == "gateway-1" })
    }

    @Test("returns the first request's outcome to a repeated request", arguments: StorageEngine.allCases)
    func sameRequestAgain(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .known(submitting))
        let declined = try await fixture.store.storeOutcome(
            submitting, as: .declined, PaymentOutcome(reason: "insufficient_funds", processedAt: fixture.now),
            at: fixture.now)
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .known(declined))
    }

    @Test("makes a second attempt wait while another uses the payment token", arguments: StorageEngine.allCases)
    func underWay(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (payment, _) = try await fixture.begun(fixture.arrival())
        #expect(try await fixture.store.begin(fixture.arrival(), at: fixture.now) == .underWay(payment))
        // The attempt's deadline is in 25 s. The store adds 5 s for clocks that differ.
        let last = fixture.now.addingTimeInterval(30)
        #expect(try await fixture.store.begin(fixture.arrival(), at: last) == .underWay(payment))
    }

    @Test("refuses the same payment token for another order or purpose", arguments: StorageEngine.allCases)
    func usedDifferently(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        _ = try await fixture.submitting(fixture.arrival())
        for arrival in [fixture.arrival(request: "another order"), fixture.arrival(purpose: .release)] {
            #expect(try await fixture.store.begin(arrival, at: fixture.now) == .usedDifferently)
        }
    }

    @Test(
        "keeps separate payments for two clients with the same payment token until paytokend has answered",
        arguments: StorageEngine.allCases)
    func otherClient(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        _ = try await fixture.begun(fixture.arrival(client: "forger"))
        let submitting = try await fixture.submitting(fixture.arrival(client: "shop"))
        #expect(submitting.state == .submitting)
    }

    @Test("refuses a second claim of the same transaction", arguments: StorageEngine.allCases)
    func oneName(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        _ = try await fixture.submitting(fixture.arrival("one form"))
        let (other, _) = try await fixture.begun(fixture.arrival("another form", client: "other"))
        let claim = try await fixture.store.claim(
            other, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        #expect(claim == .usedBefore)
        #expect(try await fixture.store.history(of: other.key).map(\.state) == [.received, .refused])
    }

    @Test(
        "finds a payment by its transaction if the payment token arrives in another form",
        arguments: StorageEngine.allCases)
    func otherForm(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival("one form"), "transaction")
        let again = fixture.arrival("another form", stating: "transaction")
        #expect(try await fixture.store.begin(again, at: fixture.now) == .known(submitting))
        // Another client does not receive the payment's state.
        let outsider = fixture.arrival("another form", client: "other", stating: "transaction")
        #expect(try await fixture.begun(outsider).0.transaction == nil)
    }

    @Test(
        "permits a new attempt after one that sent nothing, and gives it the harmless attempts' names",
        arguments: StorageEngine.allCases)
    func tryAgain(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (first, _) = try await fixture.begun(fixture.arrival())
        _ = try await fixture.store.end(first, as: .notSent, PaymentOutcome(reason: "hsm_unavailable"), at: fixture.now)
        let (second, after) = try await fixture.begun(fixture.arrival())
        #expect(after == [first.attempt.identifier])
        #expect(second.attempt != first.attempt)
        guard
            case .claimed(let submitting) = try await fixture.store.claim(
                second, fixture.transaction(), as: .submitting, nil, at: fixture.now)
        else { throw StoreFixture.NotBegun() }
        _ = try await fixture.store.end(
            submitting, as: .notSent, PaymentOutcome(reason: "not_connected"), at: fixture.now)
        let (third, then) = try await fixture.begun(fixture.arrival())
        #expect(Set(then) == [first.attempt.identifier, second.attempt.identifier])
        #expect(third.transaction?.name == submitting.transaction?.name)
    }

    @Test(
        "takes over an attempt abandoned before paytokend answered, and does not list it as harmless",
        arguments: StorageEngine.allCases)
    func abandonedReceived(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (first, _) = try await fixture.begun(fixture.arrival())
        let later = fixture.now.addingTimeInterval(31)
        let (second, after) = try await fixture.begun(fixture.arrival(deadline: 60), at: later)
        #expect(after.isEmpty)
        // The first attempt resumes late. Each of its changes must fail.
        for change in [
            { try await fixture.store.claim(first, fixture.transaction(), as: .submitting, nil, at: later) }
                as () async throws -> Any,
            { try await fixture.store.end(first, as: .notSent, PaymentOutcome(), at: later) },
            { try await fixture.store.storeOutcome(first, as: .authorized, PaymentOutcome(), at: later) },
        ] {
            await #expect(throws: PaymentStoreError.superseded(.received)) { _ = try await change() }
        }
        #expect(try await fixture.store.begin(fixture.arrival(), at: later) == .underWay(second))
    }

    @Test("accepts a different request after a refusal", arguments: StorageEngine.allCases)
    func refusedIsAskedOtherwise(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (first, _) = try await fixture.begun(fixture.arrival(request: "the wrong amount"))
        _ = try await fixture.store.end(first, as: .refused, PaymentOutcome(reason: "amount_mismatch"), at: fixture.now)
        let (second, after) = try await fixture.begun(fixture.arrival(request: "the right amount"))
        #expect(after == [first.attempt.identifier])
        #expect(second.requestDigest == StoreFixture.digest("the right amount"))
        #expect(second.outcome == nil)
    }

    @Test(
        "marks the submission of a stopped gateway as pending, and never sends it again",
        arguments: StorageEngine.allCases)
    func takeOver(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        #expect(try await fixture.store.takeOverAbandoned(at: fixture.now.addingTimeInterval(30)) == 0)
        let later = fixture.now.addingTimeInterval(30.001)
        #expect(try await fixture.store.takeOverAbandoned(at: later) == 1)
        #expect(try await fixture.store.takeOverAbandoned(at: later) == 0)
        guard case .known(let pending) = try await fixture.store.begin(fixture.arrival(), at: later) else {
            throw StoreFixture.NotBegun()
        }
        #expect(pending.state == .pending)
        #expect(try await fixture.store.pending() == PendingPayments(count: 1, oldest: fixture.now))
        // The store refuses the former owner's late report that it sent nothing, but accepts the processor's answer.
        await #expect(throws: PaymentStoreError.superseded(.pending)) {
            try await fixture.store.end(submitting, as: .notSent, PaymentOutcome(), at: later)
        }
        let settled = try await fixture.store.storeOutcome(
            submitting, as: .captured, PaymentOutcome(authorizationCode: "X", processedAt: later), at: later)
        #expect(settled.state == .captured)
        #expect(try await fixture.store.pending() == PendingPayments(count: 0, oldest: nil))
    }

    @Test(
        "keeps a final state, and accepts a second report of the same state without another change",
        arguments: StorageEngine.allCases)
    func fateStays(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        let outcome = PaymentOutcome(reason: "do_not_honor", processedAt: fixture.now)
        let declined = try await fixture.store.storeOutcome(submitting, as: .declined, outcome, at: fixture.now)
        #expect(try await fixture.store.storeOutcome(submitting, as: .declined, outcome, at: fixture.now) == declined)
        #expect(
            try await fixture.store.storeOutcome(submitting, as: .pending, PaymentOutcome(), at: fixture.now)
                == declined)
        #expect(try await fixture.store.history(of: declined.key).count == 4)
    }

    @Test(
        "lets an administrator resolve only pending payments, and records name and reason in the history",
        arguments: StorageEngine.allCases)
    func resolve(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        let identifier = try fixture.transaction().identifier
        func resolve() async throws -> Payment {
            try await fixture.store.resolve(
                transaction: identifier, as: .error, by: "alice (1000)", reason: "The acquirer has no trace of it.",
                at: fixture.now)
        }
        await #expect(throws: PaymentStoreError.superseded(.submitting)) { try await resolve() }
        _ = try await fixture.store.storeOutcome(
            submitting, as: .pending, PaymentOutcome(reason: "timeout"), at: fixture.now)
        #expect(try await resolve().state == .error)
        await #expect(throws: PaymentStoreError.superseded(.error)) { try await resolve() }
        let last = try #require(try await fixture.store.history(of: submitting.key).last)
        #expect(last.by == "alice (1000)")
        #expect(last.reason == "The acquirer has no trace of it.")
        await #expect(throws: PaymentStoreError.notFound) {
            try await fixture.store.resolve(
                transaction: StoreFixture.digest("nothing"), as: .error, by: "alice", reason: "-", at: fixture.now)
        }
    }

    @Test("never submits a payment whose payment data was released to the client", arguments: StorageEngine.allCases)
    func released(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let (payment, _) = try await fixture.begun(fixture.arrival(purpose: .release))
        guard
            case .claimed(let released) = try await fixture.store.claim(
                payment, fixture.transaction(), as: .released, nil, at: fixture.now)
        else { throw StoreFixture.NotBegun() }
        #expect(released.state == .released)
        #expect(try await fixture.store.begin(fixture.arrival(purpose: .payment), at: fixture.now) == .usedDifferently)
        #expect(try await fixture.store.begin(fixture.arrival(purpose: .release), at: fixture.now) == .known(released))
    }

    @Test("lets one of thirty simultaneous requests use a payment token", arguments: StorageEngine.allCases)
    func thirtyAtOnce(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let begun = try await withThrowingTaskGroup(of: Payment?.self) { group in
            for _ in 0..<30 {
                group.addTask {
                    guard
                        case .begun(let payment, _) = try await fixture.store.begin(fixture.arrival(), at: fixture.now)
                    else { return nil }
                    return payment
                }
            }
            return try await group.reduce(into: []) { begun, payment in if let payment { begun.append(payment) } }
        }
        #expect(begun.count == 1)
    }

    @Test("lets one of thirty simultaneous clients claim a transaction", arguments: StorageEngine.allCases)
    func thirtyClaims(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let claimed = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<30 {
                group.addTask {
                    let (payment, _) = try await fixture.begun(fixture.arrival(client: "client \(number)"))
                    let claim = try await fixture.store.claim(
                        payment, fixture.transaction(), as: .submitting, nil, at: fixture.now)
                    if case .claimed = claim { return true }
                    return false
                }
            }
            return try await group.reduce(into: 0) { count, isClaimed in count += isClaimed ? 1 : 0 }
        }
        #expect(claimed == 1)
    }

    @Test(
        "keeps a processor's reference that a later answer omits",
        arguments: StorageEngine.allCases)
    func referenceIsKept(_ engine: StorageEngine) async throws {
        let fixture = try await StoreFixture(engine)
        let submitting = try await fixture.submitting(fixture.arrival())
        _ = try await fixture.store.storeOutcome(
            submitting, as: .pending, PaymentOutcome(reason: "timeout"), at: fixture.now)
        let named = try await fixture.store.storeOutcome(
            submitting, as: .pending, PaymentOutcome(processorReference: "ref-7"), at: fixture.now)
        #expect(named.outcome?.processorReference == "ref-7")
        let settled = try await fixture.store.storeOutcome(
            submitting, as: .captured, PaymentOutcome(authorizationCode: "A1"), at: fixture.now)
        #expect(settled.outcome?.processorReference == "ref-7" && settled.outcome?.authorizationCode == "A1")
    }

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
