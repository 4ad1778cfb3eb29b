import Encodings
import Foundation
import PostgreSQLClient

/// Payments as rows: the statements, and what their results say.
enum PostgreSQLPaymentRows {
    static let columns = [
        "client", "token_digest", "purpose", "request_digest", "order_id", "state", "attempt", "owner", "deadline",
        "transaction_id", "merchant_identifier", "minor_units", "currency", "processor", "reason", "authorization_code",
        "processor_reference", "processed_at", "received_at", "changed_at", "account_digest",
    ]
    private static let list = columns.joined(separator: ", ")

    /// - Parameter isLocked: nobody else changes the row until the transaction's end.
    static func find(_ key: Payment.Key, isLocked: Bool = false) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(list) FROM payment WHERE client = $1 AND token_digest = $2" + (isLocked ? " FOR UPDATE" : ""),
            [.text(key.client), .bytes(key.tokenDigest)], prepared: isLocked ? "lock_payment" : "find_payment")
    }

    static func find(transaction: [UInt8], isLocked: Bool = false) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(list) FROM payment WHERE transaction_id = $1" + (isLocked ? " FOR UPDATE" : ""),
            [.bytes(transaction)], prepared: isLocked ? "lock_transaction" : "find_transaction")
    }

    /// The client's payments by the token's digests. No other transaction changes them until this one's end.
    static func lock(_ arrival: PaymentArrival) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(list) FROM payment WHERE client = $1 AND token_digest IN ($2, $3) FOR UPDATE",
            [
                .text(arrival.key.client), .bytes(arrival.key.tokenDigest), .bytes(arrival.spelledKey?.tokenDigest),
            ], prepared: "lock_arrival")
    }

    /// The client's own payment of the transaction that a token says it is; none where it says none.
    static func lock(stated transaction: [UInt8]?, of client: String) -> PostgreSQLStatement {
        PostgreSQLStatement(
            "SELECT \(list) FROM payment WHERE transaction_id = $1 AND client = $2 FOR UPDATE",
            [.bytes(transaction), .text(client)], prepared: "lock_stated")
    }

    /// Whoever brings the same token waits until this transaction has ended, also where there is no row yet that could be locked.
    static func lock(_ key: Payment.Key) -> PostgreSQLStatement {
        let number = key.tokenDigest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return PostgreSQLStatement(
            "SELECT pg_advisory_xact_lock($1)", [.integer(Int64(bitPattern: number))], prepared: "lock_token")
    }

    /// Writes all of it; a key that is known is overwritten.
    static func put(_ payment: Payment) -> PostgreSQLStatement {
        let places = columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let changes = PostgreSQLPaymentTables.changing.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
        let (transaction, outcome) = (payment.transaction, payment.outcome)
        return PostgreSQLStatement(
            """
            INSERT INTO payment (\(list)) VALUES (\(places))
            ON CONFLICT (client, token_digest) DO UPDATE SET \(changes)
            """,
            [
                .text(payment.key.client), .bytes(payment.key.tokenDigest), .text(payment.purpose.rawValue),
                .bytes(payment.requestDigest), .text(payment.orderId), .text(payment.state.rawValue),
                .bytes(payment.attempt.identifier), .text(payment.attempt.owner),
                .integer(StoredTime.milliseconds(payment.attempt.deadline)), .bytes(transaction?.identifier),
                .text(transaction?.merchantIdentifier), .integer(transaction?.amount?.minorUnits),
                .text(transaction?.amount?.currency.letters), .text(transaction?.processor), .text(outcome?.reason),
                .text(outcome?.authorizationCode), .text(outcome?.processorReference),
                .integer(outcome?.processedAt.map(StoredTime.milliseconds)),
                .integer(StoredTime.milliseconds(payment.receivedAt)),
                .integer(StoredTime.milliseconds(payment.changedAt)), .bytes(transaction?.accountDigest),
            ], prepared: "put_payment")
    }

    /// A line of history.
    static func note(
        _ payment: Payment, _ state: PaymentState, by person: String? = nil, reason: String?
    ) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            INSERT INTO payment_change (client, token_digest, state, attempt, at, by, reason)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .text(payment.key.client), .bytes(payment.key.tokenDigest), .text(state.rawValue),
                .bytes(payment.attempt.identifier), .integer(StoredTime.milliseconds(payment.changedAt)),
                .text(person ?? payment.attempt.owner), .text(reason),
            ], prepared: "note_change")
    }

    /// Attempts that ended without sending anything, each with its token's digest: at the client's token by either
    /// digest, and at the one whose payment has the stated transaction. Of each the newest, at most ``Payment/mostFreeAttempts``; each attempt has one such line.
    ///
    /// A long history takes no longer: only the index by payment and number has the order that is asked for. With `=` for the
    /// digest the primary key would have it too, and the planner takes that for a token that has a large part of all history.
    static func harmlessAttempts(at arrival: PaymentArrival) -> PostgreSQLStatement {
        func newest(at digest: String) -> String {
            """
            (SELECT token_digest, attempt FROM payment_change
            WHERE client = $1 AND token_digest BETWEEN \(digest) AND \(digest) AND state IN ('not_sent', 'refused')
            ORDER BY token_digest DESC, number DESC LIMIT \(Payment.mostFreeAttempts))
            """
        }
        return PostgreSQLStatement(
            """
            \(newest(at: "$2")) UNION ALL \(newest(at: "$4")) UNION ALL
            SELECT stated.token_digest, stated.attempt
            FROM payment CROSS JOIN LATERAL \(newest(at: "payment.token_digest")) AS stated
            WHERE payment.transaction_id = $3 AND payment.client = $1 AND payment.token_digest <> $2
                AND payment.token_digest IS DISTINCT FROM $4
            """,
            [
                .text(arrival.key.client), .bytes(arrival.key.tokenDigest), .bytes(arrival.statedTransaction),
                .bytes(arrival.spelledKey?.tokenDigest),
            ],
            prepared: "harmless_attempts")
    }

    static func harmless(_ rows: [PostgreSQLRow], of key: Payment.Key) throws -> [[UInt8]] {
        try rows.filter { try $0.bytes(0) == key.tokenDigest }.map { try $0.bytes(1) }
    }

    static func history(of key: Payment.Key) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT number, state, attempt, at, by, reason FROM payment_change
            WHERE client = $1 AND token_digest = $2 ORDER BY number LIMIT 1000
            """, [.text(key.client), .bytes(key.tokenDigest)])
    }

    static func change(_ row: PostgreSQLRow) throws -> PaymentChange {
        PaymentChange(
            number: try row.integer(0), state: try state(row.text(1)), attempt: Hexadecimal.encode(try row.bytes(2)),
            at: StoredTime.date(try row.integer(3)), by: try row.text(4), reason: try row.textIfAny(5))
    }

    static func payments(_ filter: PaymentFilter) -> PostgreSQLStatement {
        var (conditions, values): ([String], [PostgreSQLValue]) = ([], [])
        func require(_ condition: String, _ value: PostgreSQLValue) {
            values.append(value)
            conditions.append(condition + "$\(values.count)")
        }
        if let client = filter.client { require("client = ", .text(client)) }
        if !filter.states.isEmpty {
            // As literals, of a closed set: a partial index serves no parameter.
            let states = filter.states.map { "'\($0.rawValue)'" }.sorted()
            conditions.append("state IN (\(states.joined(separator: ", ")))")
        }
        if let processor = filter.processor { require("processor = ", .text(processor)) }
        if let since = filter.since { require("received_at >= ", .integer(StoredTime.milliseconds(since))) }
        let order = filter.oldestFirst ? "ASC" : "DESC"
        if let after = filter.after {
            values += [
                .integer(StoredTime.milliseconds(after.receivedAt)), .text(after.key.client),
                .bytes(after.key.tokenDigest),
            ]
            let places = (values.count - 2...values.count).map { "$\($0)" }.joined(separator: ", ")
            conditions.append("(received_at, client, token_digest) \(filter.oldestFirst ? ">" : "<") (\(places))")
        }
        values.append(.integer(Int64(filter.limit)))
        return PostgreSQLStatement(
            """
            SELECT \(list) FROM payment \(conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND "))
            ORDER BY received_at \(order), client \(order), token_digest \(order) LIMIT $\(values.count)
            """, values)
    }

    static let pending = PostgreSQLStatement(
        "SELECT count(*), min(received_at) FROM payment WHERE state = 'pending'", prepared: "count_pending")

    /// Those that another gateway is at are left to it.
    static func abandoned(before deadline: Int64) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            SELECT \(list) FROM payment WHERE state = 'submitting' AND deadline < $1 LIMIT 1000
            FOR UPDATE SKIP LOCKED
            """, [.integer(deadline)], prepared: "lock_abandoned")
    }

    static let prune = PostgreSQLStatement("SELECT prune_payments(1000)", prepared: "prune_payments")

    // MARK: Reading

    private static func state(_ text: String) throws -> PaymentState {
        guard let state = PaymentState(rawValue: text) else { throw PaymentStoreError.damaged(reason: "a state") }
        return state
    }

    static func listed(_ row: PostgreSQLRow) throws -> ListedPayment {
        ListedPayment(
            place: .init(
                receivedAt: StoredTime.date(try row.integer(18)),
                key: .init(client: try row.text(0), tokenDigest: try row.bytes(1))), payment: try? payment(row))
    }

    static func payment(_ row: PostgreSQLRow) throws -> Payment {
        guard let purpose = Payment.Purpose(rawValue: try row.text(2)) else {
            throw PaymentStoreError.damaged(reason: "a purpose")
        }
        return Payment(
            key: .init(client: try row.text(0), tokenDigest: try row.bytes(1)), purpose: purpose,
            requestDigest: try row.bytes(3), orderId: try row.textIfAny(4), state: try state(row.text(5)),
            attempt: PaymentAttempt(
                identifier: try row.bytes(6), owner: try row.text(7), deadline: StoredTime.date(try row.integer(8))),
            transaction: try transaction(row),
            outcome: PaymentOutcome(
                storedReason: try row.textIfAny(14), authorizationCode: try row.textIfAny(15),
                processorReference: try row.textIfAny(16),
                processedAt: try row.integerIfAny(17).map(StoredTime.date)),
            receivedAt: StoredTime.date(try row.integer(18)), changedAt: StoredTime.date(try row.integer(19)))
    }

    private static func transaction(_ row: PostgreSQLRow) throws -> PaymentTransaction? {
        guard let identifier = try row.bytesIfAny(9) else { return nil }
        return try PaymentTransaction(
            identifier: identifier, merchantIdentifier: row.textIfAny(10), minorUnits: row.integerIfAny(11),
            currency: row.textIfAny(12), processor: row.textIfAny(13), accountDigest: row.bytesIfAny(20))
    }
}
