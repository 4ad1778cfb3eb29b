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
}
