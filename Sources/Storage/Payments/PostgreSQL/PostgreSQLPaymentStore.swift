import Dispatch
public import Foundation
public import PostgreSQLClient

/// Payments in PostgreSQL, for several gateways.
///
/// Gateways that bring one payment forward at the same time take turns by its row's lock. When a gateway opens the store it leaves
/// the payments under way to those who have them, or to their deadlines: others live.
public final class PostgreSQLPaymentStore: PaymentStore {
    public let engine = "postgresql"
    /// The most connections to the server that a store has.
    public static let mostSessions = PostgreSQLPaymentSessions.count
    /// `db1:5432/paytoken_gateway`, for people.
    public let place: String
    /// What was permitted and insecure about the server, and the role, when the store was opened.
    public let insecureSettings: Set<InsecureStoreSetting>
    public var unreadablePayments: Int { unreadable.count }
    private let unreadable = UnreadablePayments()
    private let sessions: PostgreSQLPaymentSessions

    /// Opens the store; blocks until `timeout`, in the resolver perhaps longer.
    ///
    /// - Parameters:
    ///   - passwordFile: read anew for each session; nil for a login without one.
    ///   - timeout: of each change and each question.
    public init(
        _ url: PostgreSQLURL, passwordFile: String?, timeout: Duration = .seconds(5)
    ) throws(PaymentStoreOpeningError) {
        let session = PostgreSQLPaymentSession(url, passwordFile: passwordFile, timeout: timeout)
        let first: PostgreSQLConnection
        (first, insecureSettings) = try session.openAndLook(until: .now + timeout)
        place = url.server
        sessions = PostgreSQLPaymentSessions(session, timeout: timeout, first: first)
    }

    deinit { sessions.end() }

    public func begin(
        _ arrival: PaymentArrival, at now: Date
    ) async throws(PaymentStoreError) -> PaymentBeginning {
        try await change([
            PostgreSQLPaymentRows.lock(arrival.key),
            PostgreSQLPaymentRows.lock(arrival),
            PostgreSQLPaymentRows.lock(stated: arrival.statedTransaction, of: arrival.key.client),
            PostgreSQLPaymentRows.harmlessAttempts(at: arrival),
        ]) { results in
            let found = arrival.payment(
                among: try (results[1].rows + results[2].rows).map(PostgreSQLPaymentRows.payment))
            let after = try found.map { try PostgreSQLPaymentRows.harmless(results[3].rows, of: $0.key) } ?? []
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
        // Of two that claim one transaction at once the second waits at the name's index, is refused by it, and sees the first
        // when it is begun again.
        return try await change([
            PostgreSQLPaymentRows.find(payment.key, isLocked: true),
            PostgreSQLPaymentRows.find(transaction: transaction.identifier),
        ]) { results in
            let claimed = try payment.claimed(
                in: results[0].payment, besides: results[1].payment, transaction, as: state, outcome, at: now)
            return (
                claimed.claim,
                [PostgreSQLPaymentRows.put(claimed.payment)]
                    + claimed.history.map {
                        PostgreSQLPaymentRows.note(claimed.payment, $0.state, reason: $0.reason)
                    }
            )
        }
    }

    public func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition([.notSent, .refused].contains(state))
        return try await change([PostgreSQLPaymentRows.find(payment.key, isLocked: true)]) { results in
            let changed = try payment.changed(
                in: results[0].payment, to: state, from: Payment.endable, outcome, at: now)
            return (changed, Self.writing(changed, reason: outcome.reason))
        }
    }

    public func settle(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(state == .pending || Payment.fates.contains(state))
        return try await change([
            PostgreSQLPaymentRows.find(payment.key, isLocked: true),
            PostgreSQLPaymentRows.find(transaction: payment.transaction?.identifier ?? []),
        ]) { results in
            let settled = try payment.settled(
                in: results[0].payment, besides: results[1].payment, as: state, outcome, at: now)
            return (
                settled.payment,
                (settled.isChanged ? [PostgreSQLPaymentRows.put(settled.payment)] : [])
                    + settled.history.map {
                        PostgreSQLPaymentRows.note(settled.noted, $0.state, reason: $0.reason)
                    }
            )
        }
    }

    public func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(Payment.fates.contains(state))
        return try await change([PostgreSQLPaymentRows.find(transaction: transaction, isLocked: true)]) { results in
            guard let row = try results[0].payment else { throw PaymentStoreError.notFound }
            let changed = try row.resolved(as: state, at: now)
            return (changed, Self.writing(changed, by: person, reason: reason))
        }
    }

    public func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.milliseconds(now.addingTimeInterval(-Payment.clockMargin))
        return try await change([PostgreSQLPaymentRows.abandoned(before: latest)]) { [unreadable] results in
            let rows = try results[0].rows.map(PostgreSQLPaymentRows.listed)
            let pending = try unreadable.readable(rows).map { try $0.interrupted(at: now) }
            return (pending.count, pending.flatMap { Self.writing($0, reason: $0.outcome?.reason) })
        }
    }

    public func prune() async throws(PaymentStoreError) -> Int {
        // A transaction of its own. If its commit is in doubt, the next call prunes again.
        try await read(PostgreSQLPaymentRows.prune) { result in Int(try result.rows.first?.integer(0) ?? 0) }
    }

    public func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment? {
        try await read(PostgreSQLPaymentRows.find(transaction: transaction)) { try $0.payment }
    }

    public func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment] {
        try await unreadable.list(filter) { filter throws(PaymentStoreError) in
            try await read(PostgreSQLPaymentRows.payments(filter)) { try $0.rows.map(PostgreSQLPaymentRows.listed) }
        }
    }

    public func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange] {
        try await read(PostgreSQLPaymentRows.history(of: key)) { try $0.rows.map(PostgreSQLPaymentRows.change) }
    }

    public func pending() async throws(PaymentStoreError) -> PendingPayments {
        try await read(PostgreSQLPaymentRows.pending) { result in
            guard let row = result.rows.first else { throw PaymentStoreError.damaged(reason: "no count") }
            return PendingPayments(
                count: Int(try row.integer(0)), oldest: try row.integerIfAny(1).map(StoredTime.date))
        }
    }

    public func probe() async throws(PaymentStoreError) {
        try await sessions.perform { connections, deadline in
            let probe = { try PostgreSQLPaymentTransaction<Void>.probe.prove(on: connections, until: deadline) }
            guard try !connections.doubt.settle(probe) else { return }
            try probe()
        }
    }

    public func close() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            Thread.detachNewThread { [sessions] in
                sessions.close()
                continuation.resume()
            }
        }
    }

    private func change<Value: Sendable>(
        _ reading: [PostgreSQLStatement],
        _ decide: @escaping @Sendable ([PostgreSQLResult]) throws -> (Value, [PostgreSQLStatement])
    ) async throws(PaymentStoreError) -> Value {
        let transaction = PostgreSQLPaymentTransaction(reading: reading, decide: decide)
        return try await sessions.perform { connections, deadline in
            try transaction.perform(on: connections, until: deadline)
        }
    }

    private static func writing(_ changed: Payment, by person: String? = nil, reason: String?) -> [PostgreSQLStatement]
    {
        [
            PostgreSQLPaymentRows.put(changed),
            PostgreSQLPaymentRows.note(changed, changed.state, by: person, reason: reason),
        ]
    }

    /// A question outside of a transaction.
    private func read<Value: Sendable>(
        _ statement: PostgreSQLStatement, _ value: @escaping @Sendable (PostgreSQLResult) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        try await sessions.perform { connections, deadline in
            try value(connections.begin([statement], until: deadline).results[0])
        }
    }
}

extension PostgreSQLResult {
    /// The one that was looked for.
    fileprivate var payment: Payment? {
        get throws { try rows.first.map(PostgreSQLPaymentRows.payment) }
    }
}
