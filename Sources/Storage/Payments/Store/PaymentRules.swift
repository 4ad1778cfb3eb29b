import Foundation

// The permitted changes, for every engine: an engine reads the row, applies these rules, and writes the result.

/// The result of a client's payment token: an attempt begins, or the client gets another response.
enum ArrivalRule {
    case begin
    case answer(PaymentBeginning)

    /// Decides if an attempt begins, or which response the client gets instead.
    ///
    /// - Parameters:
    ///   - found: the payment that ``PaymentArrival/payment(among:)`` chose; nil for a payment token that is new.
    ///   - attempts: earlier attempts at the payment that ended without sending anything, up to
    ///     ``Payment/maximumFreeAttempts``.
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
            [arrival.requestDigest, arrival.originalDigests?.requestDigest].contains(found.requestDigest)
            && found.purpose == arrival.purpose
        switch found.state {
        // The refused request had no result, so the client may now send a different one, for example with the correct
        // amount.
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

/// The row that a claim writes, and the result of the claim.
struct ClaimedRow {
    let claim: PaymentClaim
    let payment: Payment
    let history: [(state: PaymentState, reason: String?)]
}

/// The change that a processor's response makes to a row.
struct SettledRow {
    /// The payment after the change; if ``isChanged`` is false, the payment as it was stored before.
    let payment: Payment
    /// True if the payment's row must be written; false if at most lines of the history are added.
    let isChanged: Bool
    let history: [(state: PaymentState, reason: String?)]
    /// The time of the history lines.
    let at: Date

    /// A copy of ``payment`` from which the history lines are made. Its `changedAt` is ``at``, because an unchanged
    /// payment keeps the time of an earlier change.
    var paymentForHistory: Payment {
        var copy = payment
        copy.changedAt = at
        return copy
    }
}

extension PaymentArrival {
    /// The key that earlier versions used, with the digest of the payment token as the client wrote it. Nil if the
    /// client used the normal form, whose digest is in ``key``.
    var originalKey: Payment.Key? {
        originalDigests.map { Payment.Key(client: key.client, tokenDigest: $0.tokenDigest) }.flatMap {
            $0 == key ? nil : $0
        }
    }

    /// Returns the payment token's payment. If there are several payments, returns the one whose payment token
    /// paytokend has released, since no other can have been sent.
    ///
    /// - Parameter found: the client's own payments that have one of the payment token's digests, or the transaction
    ///   that the payment token states.
    func payment(among found: [Payment]) -> Payment? {
        found.first { $0.transaction != nil } ?? found.first { $0.key == key } ?? found.first
    }

    /// Returns the payment at the beginning of this attempt. The payment keeps the key of `found`. Otherwise a payment
    /// token that a client writes in two forms would become two payments.
    func begun(_ found: Payment?, at now: Date) -> Payment {
        Payment(
            key: found?.key ?? key, purpose: purpose, requestDigest: requestDigest, orderId: orderId, state: .received,
            attempt: attempt, transaction: found?.transaction, receivedAt: found?.receivedAt ?? now, changedAt: now)
    }
}

extension Payment {
    /// Returns the whole seconds until the next attempt may begin; nil if it may begin now.
    ///
    /// Each attempt adds lines of history, and an attempt that sent nothing may be followed by another. Without this
    /// limit, a repeated payment token, even a forged one, would make the history grow without bound.
    fileprivate func secondsToNextAttempt(after attempts: [[UInt8]], at now: Date) -> Int? {
        guard attempts.count >= Self.maximumFreeAttempts else { return nil }
        let waited = now.timeIntervalSince(changedAt)
        // A change whose time is more than `clockMargin` in the future was written with a wrong clock, so it does not
        // delay the attempt.
        guard (-Self.clockMargin..<Self.attemptInterval).contains(waited) else { return nil }
        return Int((Self.attemptInterval - waited).rounded(.up))
    }

    /// Returns the row's payment in its next state.
    ///
    /// - Throws: `superseded` if the row now belongs to another attempt, or its state does not permit the change.
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
        if let outcome { changed.outcome = outcome.completed(from: row.outcome) }
        if ![.submitting, .pending].contains(state) { changed.transaction?.accountDigest = nil }
        return changed
    }

    /// Returns the result of a claim, and the row to write. The claim follows paytokend's release of the payment token.
    ///
    /// - Parameters:
    ///   - row: this payment's row.
    ///   - other: the payment with this transaction identifier; nil if there is none. It is this payment if an earlier
    ///     attempt already claimed the transaction.
    func claimed(
        in row: Payment?, nameOwner other: Payment?, _ transaction: PaymentTransaction, as state: PaymentState,
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

    /// Returns the payment as `pending`, since its attempt ended while it was `submitting`.
    func interrupted(at now: Date) throws(PaymentStoreError) -> Payment {
        try changed(in: self, to: .pending, from: [.submitting], PaymentOutcome(reason: "interrupted"), at: now)
    }

    /// Returns the payment after its processor's response, which may arrive late, more than once, or as the result of a
    /// query.
    ///
    /// A stored outcome is kept, even if a person set it; a response with a different outcome becomes a line of the
    /// history. If the row does not contain the claim, the database has lost its last commits, for example in a
    /// failover. This attempt, which has the response, then writes the claim again.
    ///
    /// - Parameters:
    ///   - row: this payment's row; nil if the database has lost the payment's arrival as well.
    ///   - other: the payment with this transaction identifier; nil if there is none.
    func settled(
        in row: Payment?, nameOwner other: Payment?, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
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
        if Self.outcomeStates.contains(found.state) {
            let contradicts = state != .pending && state != found.state
            return SettledRow(
                payment: found, isChanged: false,
                history: contradicts ? [(state, PaymentChange.contradiction(outcome))] : [], at: now)
        }
        // The first response that contains the processor's identifier of the payment is stored, even if the payment
        // stays `pending`.
        let addsReference = found.outcome?.processorReference == nil && outcome.processorReference != nil
        if state == .pending, found.state == .pending, !addsReference {
            return SettledRow(payment: found, isChanged: false, history: [], at: now)
        }
        let settled = try changed(in: found, to: state, from: Self.settleable, outcome, at: now)
        return SettledRow(payment: settled, isChanged: true, history: [(state, outcome.reason)], at: now)
    }

    /// Returns the payment after a person has resolved it.
    ///
    /// - Throws: `superseded` if it is not pending.
    func resolved(as state: PaymentState, at now: Date) throws(PaymentStoreError) -> Payment {
        var outcome = outcome ?? PaymentOutcome()
        (outcome.reason, outcome.processedAt) = ("resolved", now)
        return try changed(in: self, to: state, from: [.pending], outcome, at: now)
    }

    /// The states in which an attempt can end without having sent anything.
    static let endable: Set<PaymentState> = [.received, .decrypted, .submitting]
    /// The states in which a processor's response is accepted.
    static let settleable: Set<PaymentState> = [.submitting, .pending]
    /// The outcomes that a processor, or a person, can give a payment.
    static let outcomeStates: Set<PaymentState> = [.authorized, .captured, .declined, .error]
}
