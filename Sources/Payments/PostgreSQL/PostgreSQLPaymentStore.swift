import Dispatch
public import Foundation
public import PostgreSQLClient

/// Payments in PostgreSQL, for several gateways.
///
/// Gateways that bring one payment forward at the same time take turns by its row's lock. When a gateway opens the store it leaves
/// the payments under way to those who have them, or to their deadlines: others live.
public final class PostgreSQLPaymentStore: PaymentStore {
    public let engine = "postgresql"
    /// `db1:5432/paytoken_gateway`, for people.
    public let place: String
    /// What is permitted and insecure about the server, by the names of configuration warnings, with a sentence each.
    public let insecureSettings: [(name: String, message: String)]
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
        let (first, facts) = try session.openWithFacts(until: .now + timeout)
        place = url.server
        insecureSettings = facts.warnings
        sessions = PostgreSQLPaymentSessions(session, timeout: timeout, first: first)
    }

    deinit { sessions.end() }

    public func begin(
        _ arrival: PaymentArrival, at now: Date
    ) async throws(PaymentStoreError) -> PaymentBeginning {
        try await change([
            PostgreSQLPaymentRows.lock(arrival.key),
            PostgreSQLPaymentRows.find(arrival.key, isLocked: true),
            PostgreSQLPaymentRows.lock(stated: arrival.statedTransaction, of: arrival.key.client),
            PostgreSQLPaymentRows.harmlessAttempts(at: arrival),
        ]) { results in
            let found = try results[1].payment ?? results[2].payment
            if case .answer(let answer) = ArrivalRule(arrival, found: found, at: now) { return (answer, []) }
            let payment = arrival.begun(found, at: now)
            let after = found == nil ? [] : try PostgreSQLPaymentRows.harmless(results[3].rows, of: payment.key)
            return (
                .begun(payment, after: after),
                [
                    PostgreSQLPaymentRows.put(payment),
                    PostgreSQLPaymentRows.note(payment, .received, reason: nil),
                ]
            )
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
            var changed = try payment.changed(in: results[0].payment, to: state, from: [.received], outcome, at: now)
            if let other = try results[1].payment, other.key != payment.key {
                changed.state = .refused
                changed.outcome = PaymentOutcome(reason: "transaction_replayed")
                return (
                    .usedBefore,
                    [
                        PostgreSQLPaymentRows.put(changed),
                        PostgreSQLPaymentRows.note(changed, .refused, reason: changed.outcome?.reason),
                    ]
                )
            }
            changed.transaction = transaction
            return (
                .claimed(changed),
                [
                    PostgreSQLPaymentRows.put(changed), PostgreSQLPaymentRows.note(changed, .decrypted, reason: nil),
                    PostgreSQLPaymentRows.note(changed, state, reason: outcome?.reason),
                ]
            )
        }
    }

    public func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition([.notSent, .refused].contains(state))
        return try await change([PostgreSQLPaymentRows.find(payment.key, isLocked: true)]) { results in
            Self.written(
                try payment.changed(in: results[0].payment, to: state, from: Payment.endable, outcome, at: now), outcome
            )
        }
    }

    public func settle(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(state == .pending || Payment.fates.contains(state))
        return try await change([PostgreSQLPaymentRows.find(payment.key, isLocked: true)]) { results in
            let row = try results[0].payment
            if let row, row.isSettled(by: payment, as: state, outcome) { return (row, []) }
            return Self.written(
                try payment.changed(in: row, to: state, from: Payment.settleable, outcome, at: now), outcome)
        }
    }

    public func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(Payment.fates.contains(state))
        return try await change([PostgreSQLPaymentRows.find(transaction: transaction, isLocked: true)]) { results in
            guard let row = try results[0].payment else { throw PaymentStoreError.notFound }
            let changed = try row.resolved(as: state, at: now)
            return (
                changed,
                [
                    PostgreSQLPaymentRows.put(changed),
                    PostgreSQLPaymentRows.note(changed, state, by: person, reason: reason),
                ]
            )
        }
    }

    public func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.milliseconds(now.addingTimeInterval(-Payment.clockMargin))
        return try await change([PostgreSQLPaymentRows.abandoned(before: latest)]) { results in
            let outcome = PaymentOutcome(reason: "interrupted")
            let abandoned = try results[0].rows.map(PostgreSQLPaymentRows.payment)
            return (
                abandoned.count,
                try abandoned.flatMap { payment in
                    Self.written(
                        try payment.changed(in: payment, to: .pending, from: [.submitting], outcome, at: now), outcome
                    ).writing
                }
            )
        }
    }

    public func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment? {
        try await read(PostgreSQLPaymentRows.find(transaction: transaction)) { try $0.payment }
    }

    public func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment] {
        try await read(PostgreSQLPaymentRows.payments(filter)) { try $0.rows.map(PostgreSQLPaymentRows.payment) }
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
        // A server that takes no writes, a standby say, refuses the transaction.
        _ = try await change([PostgreSQLPaymentRows.pending]) { _ in ((), []) }
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

    private static func written(_ changed: Payment, _ outcome: PaymentOutcome) -> (
        Payment, writing: [PostgreSQLStatement]
    ) {
        (
            changed,
            [
                PostgreSQLPaymentRows.put(changed),
                PostgreSQLPaymentRows.note(changed, changed.state, reason: outcome.reason),
            ]
        )
    }

    /// A question outside of a transaction; asked once more where the session had ended meanwhile.
    private func read<Value: Sendable>(
        _ statement: PostgreSQLStatement, _ value: @escaping @Sendable (PostgreSQLResult) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        try await sessions.perform { connections, deadline in
            let wasOld = connections.isOld
            do {
                return try value(Self.ask(statement, connections, until: deadline))
            } catch PostgreSQLFailure.lost where wasOld {
                return try value(Self.ask(statement, connections, until: deadline))
            }
        }
    }

    private static func ask(
        _ statement: PostgreSQLStatement, _ connections: PostgreSQLPaymentSessions.Connections,
        until deadline: ContinuousClock.Instant
    ) throws -> PostgreSQLResult {
        let connection = try connections.connection(until: deadline)
        do throws(PostgreSQLFailure) {
            let results = try connection.exchange([statement], until: deadline)
            connections.keep()
            return results[0]
        } catch {
            // A question that was refused leaves the session as it was.
            if case .refused = error {} else { connections.drop() }
            throw error
        }
    }
}

extension PostgreSQLResult {
    /// The one that was looked for.
    fileprivate var payment: Payment? {
        get throws { try rows.first.map(PostgreSQLPaymentRows.payment) }
    }
}

extension PostgreSQLPaymentSession.Facts {
    fileprivate var warnings: [(name: String, message: String)] {
        var warnings: [(name: String, message: String)] = []
        if isOwner {
            warnings.append(
                (
                    "database_owner",
                    "the gateway logs in as a superuser, or as one that can act as the tables' owner, so that no right binds it; "
                        + "use a role of its own, with the rights that \(PostgreSQLPaymentSession.create) --grant ROLE gives"
                ))
        }
        if isUnverified {
            warnings.append(
                (
                    "database_tls",
                    "the server is reached over TCP with less than sslmode=verify-full: whoever is between can change what became of "
                        + "payments"
                ))
        }
        if !hasStandby {
            warnings.append(
                (
                    "database_standby",
                    "the server names no synchronous standby: when it is lost, so is what became of payments"
                ))
        }
        return warnings
    }
}
