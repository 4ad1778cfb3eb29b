import Foundation

// What may follow what, for every engine: an engine reads the row, asks here, and writes what it is told.

/// What an engine does about a client's token that arrives.
enum ArrivalRule {
    case begin
    case answer(PaymentBeginning)

    /// - Parameters:
    ///   - found: ``PaymentArrival/payment(among:)``.
    ///   - attempts: earlier ones at it that ended without sending anything, up to ``Payment/mostFreeAttempts``.
    init(_ arrival: PaymentArrival, found: Payment?, after attempts: [[UInt8]], at now: Date) {
        guard let found else {
            self = .begin
            return
        }
        if let since = arrival.since, found.receivedAt < since {
            self = .answer(.usedBefore)
            return
        }
        let isSame =
            [arrival.requestDigest, arrival.spelled?.requestDigest].contains(found.requestDigest)
            && found.purpose == arrival.purpose
        switch found.state {
        // Nothing came of it, so that it may be asked for otherwise now: with the right amount, say.
        case .refused: self = .begin
        case _ where !isSame: self = .answer(.usedDifferently)
        case .notSent: self = .begin
        case .received, .decrypted: self = found.isAbandoned(at: now) ? .begin : .answer(.underWay(found))
        case .submitting, .pending, .authorized, .captured, .declined, .error, .released: self = .answer(.known(found))
        }
        if case .begin = self, let seconds = found.secondsToNextAttempt(after: attempts, at: now) {
            self = .answer(.triedTooOften(seconds: seconds))
        }
    }
}

/// What a claim writes, and what it answers.
struct ClaimedRow {
    let claim: PaymentClaim
    let payment: Payment
    let history: [(state: PaymentState, reason: String?)]
}

/// The change that a processor's answer makes to a row.
struct SettledRow {
    /// As it is stored then.
    let payment: Payment
    /// False if the row stays as it is.
    let isChanged: Bool
    let history: [(state: PaymentState, reason: String?)]
    /// The time of the history's lines.
    let at: Date

    /// The payment by whose attempt and time the history's lines are written.
    var noted: Payment {
        var noted = payment
        noted.changedAt = at
        return noted
    }
}

extension PaymentArrival {
    /// The token's place under its digest as it is spelled, where that is another one.
    var spelledKey: Payment.Key? {
        spelled.map { Payment.Key(client: key.client, tokenDigest: $0.tokenDigest) }.flatMap { $0 == key ? nil : $0 }
    }

    /// The token's payment. Of several the one that paytokend has released, which alone can have been sent.
    ///
    /// - Parameter found: the client's own ones by the token's digests and by the transaction that it states.
    func payment(among found: [Payment]) -> Payment? {
        found.first { $0.transaction != nil } ?? found.first { $0.key == key } ?? found.first
    }

    /// The payment as this attempt begins it. Its place is that of the row that was found, so that one token in two forms is
    /// one payment.
    func begun(_ found: Payment?, at now: Date) -> Payment {
        Payment(
            key: found?.key ?? key, purpose: purpose, requestDigest: requestDigest, orderId: orderId, state: .received,
            attempt: attempt, transaction: found?.transaction, receivedAt: found?.receivedAt ?? now, changedAt: now)
    }
}

extension Payment {
    /// Whole seconds until the next attempt may begin; nil if it may begin now.
    ///
    /// Each attempt adds lines of history, and one that sent nothing may be followed by another: without this bound a token that is
    /// repeated, a forged one too, makes history without end.
    fileprivate func secondsToNextAttempt(after attempts: [[UInt8]], at now: Date) -> Int? {
        guard attempts.count >= Self.mostFreeAttempts else { return nil }
        let waited = now.timeIntervalSince(changedAt)
        // A change from further ahead was made by a clock that was wrong.
        guard (-Self.clockMargin..<Self.attemptInterval).contains(waited) else { return nil }
        return Int((Self.attemptInterval - waited).rounded(.up))
    }

    /// The payment in its next state.
    ///
    /// - Throws: `superseded`, where the row is another attempt's by now, or its state does not lead there.
    func changed(
        in row: Payment?, to state: PaymentState, from states: Set<PaymentState>, _ outcome: PaymentOutcome?,
        at now: Date
    ) throws(PaymentStoreError) -> Payment {
        guard let row else { throw .notFound }
        guard row.attempt.identifier == attempt.identifier, states.contains(row.state) else {
            throw .superseded(row.state)
        }
        var changed = row
        (changed.state, changed.changedAt) = (state, now)
        if let outcome { changed.outcome = outcome.added(to: row.outcome) }
        if ![.submitting, .pending].contains(state) { changed.transaction?.accountDigest = nil }
        return changed
    }

    /// The payment whose token paytokend has released, with what is written of it.
    ///
    /// - Parameters:
    ///   - row: this payment's.
    ///   - other: whichever has the transaction's name; perhaps this one, of an earlier attempt.
    func claimed(
        in row: Payment?, besides other: Payment?, _ transaction: PaymentTransaction, as state: PaymentState,
        _ outcome: PaymentOutcome?, at now: Date
    ) throws(PaymentStoreError) -> ClaimedRow {
        var changed = try changed(in: row, to: state, from: [.received], outcome, at: now)
        if let other, other.key != key {
            changed.state = .refused
            changed.outcome = PaymentOutcome(reason: "transaction_replayed")
            return ClaimedRow(
                claim: .usedBefore, payment: changed, history: [(.refused, changed.outcome?.reason)])
        }
        changed.transaction = transaction
        return ClaimedRow(
            claim: .claimed(changed), payment: changed, history: [(.decrypted, nil), (state, outcome?.reason)])
    }

    /// Its attempt ended while it was `submitting`.
    func interrupted(at now: Date) throws(PaymentStoreError) -> Payment {
        try changed(in: self, to: .pending, from: [.submitting], PaymentOutcome(reason: "interrupted"), at: now)
    }

    /// The payment after its processor's answer, which may come late, more than once, or to a question.
    ///
    /// A fate that is stored stays, a person's too; an answer of another fate is a line of the history. A row in which the claim is
    /// missing is that of a database whose last commits were lost, in a fail-over say: this attempt, which has the answer, writes it again.
    ///
    /// - Parameters:
    ///   - row: this payment's; nil where its arrival was lost too.
    ///   - other: whichever has the transaction's name.
    func settled(
        in row: Payment?, besides other: Payment?, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) throws(PaymentStoreError) -> SettledRow {
        let found = row ?? self
        guard found.attempt.identifier == attempt.identifier else { throw .superseded(found.state) }
        if row == nil || found.state == .received {
            guard let transaction else { throw row.map { .superseded($0.state) } ?? .notFound }
            if let other, other.key != key { throw .superseded(other.state) }
            var lost = found
            (lost.state, lost.transaction) = (.submitting, transaction)
            let settled = try changed(in: lost, to: state, from: Self.settleable, outcome, at: now)
            let before: [PaymentState] = (row == nil ? [.received] : []) + [.decrypted, .submitting]
            return SettledRow(
                payment: settled, isChanged: true, history: before.map { ($0, nil) } + [(state, outcome.reason)],
                at: now)
        }
        if Self.fates.contains(found.state) {
            let contradicts = state != .pending && state != found.state
            return SettledRow(
                payment: found, isChanged: false,
                history: contradicts ? [(state, PaymentChange.contradiction(outcome))] : [], at: now)
        }
        // What the processor calls the payment is worth storing once.
        let addsReference = found.outcome?.processorReference == nil && outcome.processorReference != nil
        if state == .pending, found.state == .pending, !addsReference {
            return SettledRow(payment: found, isChanged: false, history: [], at: now)
        }
        let settled = try changed(in: found, to: state, from: Self.settleable, outcome, at: now)
        return SettledRow(payment: settled, isChanged: true, history: [(state, outcome.reason)], at: now)
    }

    /// By a person.
    ///
    /// - Throws: `superseded`, where it is not pending.
    func resolved(as state: PaymentState, at now: Date) throws(PaymentStoreError) -> Payment {
        var outcome = outcome ?? PaymentOutcome()
        (outcome.reason, outcome.processedAt) = ("resolved", now)
        return try changed(in: self, to: state, from: [.pending], outcome, at: now)
    }

    /// From where an attempt ends without having sent anything.
    static let endable: Set<PaymentState> = [.received, .decrypted, .submitting]
    /// From where a processor's answer is taken.
    static let settleable: Set<PaymentState> = [.submitting, .pending]
    /// What a processor, or a person, can say of a payment.
    static let fates: Set<PaymentState> = [.authorized, .captured, .declined, .error]
}
