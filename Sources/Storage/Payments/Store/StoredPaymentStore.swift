import DatabaseKit
import Foundation

/// The operations that both engines carry out with the same statements.
protocol StoredPaymentStore: PaymentStore {
    static var rows: PaymentRows { get }
    var unreadable: UnreadablePayments { get }

    /// Selects the client's earlier attempts that ended without sending anything, each with the digest of its payment.
    /// These are attempts at the payments that have either digest of the payment token, or the transaction that the
    /// payment token states. For each payment, at most the newest ``Payment/maximumFreeAttempts`` are selected. Each
    /// such attempt has one line in the history.
    static func unsentAttempts(at arrival: PaymentArrival) -> StoredStatement

    /// Runs one transaction: the statements of `reading`, then `decide`, then the statements of `writing`. The
    /// transaction is durable when this method returns.
    ///
    /// - Parameters:
    ///   - arriving: the key of a payment token that a client sent; nil for any other change. Another arrival of the
    ///     same payment token waits until the transaction ends, even if the payment has no row yet.
    ///   - decide: receives the rows of each statement of `reading`. It returns the statements to run as `writing`, and
    ///     the value that this method returns. If `writing` is empty, the transaction changes nothing. Otherwise the
    ///     last statement must insert a history line.
    func change<Value: Sendable>(
        arriving: Payment.Key?, _ reading: [StoredStatement],
        _ decide: @escaping @Sendable ([[any StoredRow]]) throws -> (value: Value, writing: [StoredStatement])
    ) async throws(PaymentStoreError) -> Value

    /// Runs a query outside of a transaction.
    func read<Value: Sendable>(
        _ statement: StoredStatement, _ value: @escaping @Sendable ([any StoredRow]) throws -> Value
    ) async throws(PaymentStoreError) -> Value
}

extension StoredPaymentStore {
    public var unreadablePayments: Int { unreadable.count }

    public func begin(
        _ arrival: PaymentArrival, at now: Date
    ) async throws(PaymentStoreError) -> PaymentBeginning {
        let reading = [
            Self.rows.payments(of: arrival),
            Self.rows.payment(stated: arrival.statedTransaction, of: arrival.key.client),
            Self.unsentAttempts(at: arrival),
        ]
        return try await change(arriving: arrival.key, reading) { results in
            let found = arrival.payment(among: try (results[0] + results[1]).map(PaymentRows.payment))
            let after = try found.map { try PaymentRows.unsentAttempts(results[2], of: $0.key) } ?? []
            if case .answer(let answer) = ArrivalRule(arrival, found: found, after: after, at: now) {
                return (answer, [])
            }
            let payment = arrival.begun(found, at: now)
            return (.begun(payment, after: after), Self.writing(payment, reason: nil))
        }
    }

    public func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?,
        at now: Date
    ) async throws(PaymentStoreError) -> PaymentClaim {
        precondition(PaymentState.decrypted.mayBecome(state))
        // If two claims of one transaction run simultaneously, the transactions' unique index makes the second wait,
        // and then refuses it. The second claim is then repeated, and reads the payment of the first.
        let reading = [Self.rows.payment(payment.key), PaymentRows.find(transaction: transaction.identifier)]
        return try await change(arriving: nil, reading) { results in
            let claimed = try payment.claimed(
                in: Self.payment(results[0]), nameOwner: Self.payment(results[1]), transaction, as: state, outcome,
                at: now)
            let history = claimed.history.map {
                PaymentRows.insertChange(claimed.payment, $0.state, reason: $0.reason)
            }
            return (claimed.claim, [PaymentRows.upsert(claimed.payment)] + history)
        }
    }

    public func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition([.notSent, .refused].contains(state))
        return try await change(arriving: nil, [Self.rows.payment(payment.key)]) { results in
            let changed = try payment.changed(
                in: Self.payment(results[0]), to: state, from: Payment.endable, outcome, at: now)
            return (changed, Self.writing(changed, reason: outcome.reason))
        }
    }

    public func storeOutcome(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(state == .pending || Payment.outcomeStates.contains(state))
        let reading = [
            Self.rows.payment(payment.key), PaymentRows.find(transaction: payment.transaction?.identifier ?? []),
        ]
        return try await change(arriving: nil, reading) { results in
            let settled = try payment.settled(
                in: Self.payment(results[0]), nameOwner: Self.payment(results[1]), as: state, outcome, at: now)
            let history = settled.history.map {
                PaymentRows.insertChange(settled.paymentForHistory, $0.state, reason: $0.reason)
            }
            return (settled.payment, (settled.isChanged ? [PaymentRows.upsert(settled.payment)] : []) + history)
        }
    }

    public func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(Payment.outcomeStates.contains(state))
        return try await change(arriving: nil, [Self.rows.payment(transaction: transaction)]) { results in
            guard let row = try Self.payment(results[0]) else { throw PaymentStoreError.notFound }
            let changed = try row.resolved(as: state, at: now)
            return (changed, Self.writing(changed, by: person, reason: reason))
        }
    }

    public func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.nearestMilliseconds(now.addingTimeInterval(-Payment.clockMargin))
        // Usually no payment is abandoned, so the search first runs without locks.
        let found = try await read(PaymentRows.findAbandoned(before: latest)) { try $0.map(PaymentRows.listed) }
        guard !unreadable.readable(found).isEmpty else { return 0 }
        return try await change(arriving: nil, [Self.rows.abandoned(before: latest)]) { [unreadable] results in
            let pending = try unreadable.readable(results[0].map(PaymentRows.listed)).map {
                try $0.interrupted(at: now)
            }
            return (pending.count, pending.flatMap { Self.writing($0, reason: $0.outcome?.reason) })
        }
    }

    public func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment? {
        try await read(PaymentRows.find(transaction: transaction)) { try Self.payment($0) }
    }

    public func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment] {
        try await unreadable.list(filter) { filter throws(PaymentStoreError) in
            try await read(PaymentRows.payments(filter)) { try $0.map(PaymentRows.listed) }
        }
    }

    public func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange] {
        try await read(PaymentRows.history(of: key)) { try $0.map(PaymentRows.change) }
    }

    public func pending() async throws(PaymentStoreError) -> PendingPayments {
        try await read(PaymentRows.pending) { rows in
            guard let row = rows.first else { throw PaymentStoreError.damaged(reason: "no count") }
            return PendingPayments(
                count: Int(try row.integer(0)), oldest: try row.integerIfAny(1).map(StoredTime.date))
        }
    }

    /// Parses the first row; returns nil if there is none.
    private static func payment(_ rows: [any StoredRow]) throws -> Payment? { try rows.first.map(PaymentRows.payment) }

    private static func writing(_ changed: Payment, by person: String? = nil, reason: String?) -> [StoredStatement] {
        [PaymentRows.upsert(changed), PaymentRows.insertChange(changed, changed.state, by: person, reason: reason)]
    }
}
