import DatabaseKit
import Encodings
import Foundation

/// Payments as rows: the statements, and the parsing of their results.
struct PaymentRows {
    /// The end of a SELECT that locks the rows until the transaction ends; empty if only one connection writes.
    let lock: String

    static let columns = [
        "client", "token_digest", "purpose", "request_digest", "order_id", "state", "attempt", "owner", "deadline",
        "transaction_id", "merchant_identifier", "minor_units", "currency", "processor", "reason", "authorization_code",
        "processor_reference", "processed_at", "received_at", "changed_at", "account_digest",
    ]
    private static let list = columns.joined(separator: ", ")
    /// The columns that a change of a payment may update. A payment's key and the time of its first receipt never
    /// change.
    static let changing = columns.filter { !["client", "token_digest", "received_at"].contains($0) }

    /// Selects and locks the payment.
    func payment(_ key: Payment.Key) -> StoredStatement {
        StoredStatement(
            "SELECT \(Self.list) FROM payment WHERE client = $1 AND token_digest = $2\(lock)",
            [.text(key.client), .bytes(key.tokenDigest)], prepared: "lock_payment")
    }

    /// Selects and locks the payment of a transaction.
    func payment(transaction: [UInt8]) -> StoredStatement {
        StoredStatement(
            "SELECT \(Self.list) FROM payment WHERE transaction_id = $1\(lock)", [.bytes(transaction)],
            prepared: "lock_transaction")
    }

    /// Selects and locks the client's payments by the payment token's digests.
    func payments(of arrival: PaymentArrival) -> StoredStatement {
        StoredStatement(
            "SELECT \(Self.list) FROM payment WHERE client = $1 AND token_digest IN ($2, $3)\(lock)",
            [
                .text(arrival.key.client), .bytes(arrival.key.tokenDigest), .bytes(arrival.originalKey?.tokenDigest),
            ], prepared: "lock_arrival")
    }

    /// Selects and locks the client's own payment of the transaction that a payment token states. Selects no payment if
    /// `transaction` is nil.
    func payment(stated transaction: [UInt8]?, of client: String) -> StoredStatement {
        StoredStatement(
            "SELECT \(Self.list) FROM payment WHERE transaction_id = $1 AND client = $2\(lock)",
            [.bytes(transaction), .text(client)], prepared: "lock_stated")
    }

    static func find(transaction: [UInt8]) -> StoredStatement {
        StoredStatement(
            "SELECT \(list) FROM payment WHERE transaction_id = $1", [.bytes(transaction)],
            prepared: "find_transaction")
    }

    /// Writes the whole row, and replaces an existing row with the same key.
    static func upsert(_ payment: Payment) -> StoredStatement {
        let (transaction, outcome) = (payment.transaction, payment.outcome)
        return StoredStatement(
            upserting,
            [
                .text(payment.key.client), .bytes(payment.key.tokenDigest), .text(payment.purpose.rawValue),
                .bytes(payment.requestDigest), .text(payment.orderId), .text(payment.state.rawValue),
                .bytes(payment.attempt.identifier), .text(payment.attempt.owner),
                .integer(StoredTime.nearestMilliseconds(payment.attempt.deadline)), .bytes(transaction?.identifier),
                .text(transaction?.merchantIdentifier), .integer(transaction?.amount?.minorUnits),
                .text(transaction?.amount?.currency.letters), .text(transaction?.processor), .text(outcome?.reason),
                .text(outcome?.authorizationCode), .text(outcome?.processorReference),
                .integer(outcome?.processedAt.map(StoredTime.nearestMilliseconds)),
                .integer(StoredTime.nearestMilliseconds(payment.receivedAt)),
                .integer(StoredTime.nearestMilliseconds(payment.changedAt)), .bytes(transaction?.accountDigest),
            ], prepared: "put_payment")
    }

    private static let upserting = """
        INSERT INTO payment (\(list)) VALUES (\(columns.indices.map { "$\($0 + 1)" }.joined(separator: ", ")))
        ON CONFLICT (client, token_digest)
        DO UPDATE SET \(changing.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
        """

    /// Adds a line to the history.
    static func insertChange(
        _ payment: Payment, _ state: PaymentState, by person: String? = nil, reason: String?
    ) -> StoredStatement {
        StoredStatement(
            """
            INSERT INTO payment_change (client, token_digest, state, attempt, at, by, reason)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            """,
            [
                .text(payment.key.client), .bytes(payment.key.tokenDigest), .text(state.rawValue),
                .bytes(payment.attempt.identifier), .integer(StoredTime.nearestMilliseconds(payment.changedAt)),
                .text(person ?? payment.attempt.owner), .text(reason),
            ], prepared: "note_change")
    }

    /// Returns the identifiers of the attempts at one payment, from rows of
    /// ``StoredPaymentStore/unsentAttempts(at:)``.
    static func unsentAttempts(_ rows: [any StoredRow], of key: Payment.Key) throws -> [[UInt8]] {
        try rows.filter { try $0.bytes(0) == key.tokenDigest }.map { try $0.bytes(1) }
    }

    static func history(of key: Payment.Key) -> StoredStatement {
        StoredStatement(
            """
            SELECT number, state, attempt, at, by, reason FROM payment_change
            WHERE client = $1 AND token_digest = $2 ORDER BY number LIMIT 1000
            """, [.text(key.client), .bytes(key.tokenDigest)])
    }

    static func change(_ row: any StoredRow) throws -> PaymentChange {
        PaymentChange(
            number: try row.integer(0), state: try state(row.text(1)), attempt: Hexadecimal.encode(try row.bytes(2)),
            at: StoredTime.date(try row.integer(3)), by: try row.text(4), reason: try row.textIfAny(5))
    }

    static func payments(_ filter: PaymentFilter) -> StoredStatement {
        var (conditions, values): ([String], [StoredValue]) = ([], [])
        func require(_ condition: String, _ value: StoredValue) {
            values.append(value)
            conditions.append(condition + "$\(values.count)")
        }
        if let client = filter.client { require("client = ", .text(client)) }
        if !filter.states.isEmpty {
            // The states are literals from a closed set, because a partial index cannot be used with a parameter.
            let states = filter.states.map { "'\($0.rawValue)'" }.sorted()
            conditions.append("state IN (\(states.joined(separator: ", ")))")
        }
        if let processor = filter.processor { require("processor = ", .text(processor)) }
        if let since = filter.since { require("received_at >= ", .integer(StoredTime.nearestMilliseconds(since))) }
        let order = filter.oldestFirst ? "ASC" : "DESC"
        if let after = filter.after {
            values += [
                .integer(StoredTime.nearestMilliseconds(after.receivedAt)), .text(after.key.client),
                .bytes(after.key.tokenDigest),
            ]
            let places = (values.count - 2...values.count).map { "$\($0)" }.joined(separator: ", ")
            conditions.append("(received_at, client, token_digest) \(filter.oldestFirst ? ">" : "<") (\(places))")
        }
        values.append(.integer(Int64(filter.limit)))
        return StoredStatement(
            """
            SELECT \(list) FROM payment \(conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND "))
            ORDER BY received_at \(order), client \(order), token_digest \(order) LIMIT $\(values.count)
            """, values)
    }

    static let pending = StoredStatement(
        "SELECT count(*), min(received_at) FROM payment WHERE state = 'pending'", prepared: "count_pending")

    static func findAbandoned(before deadline: Int64) -> StoredStatement {
        StoredStatement(
            "SELECT \(list) FROM payment WHERE state = 'submitting' AND deadline < $1 LIMIT 1000",
            [.integer(deadline)], prepared: "find_abandoned")
    }

    /// Selects and locks the abandoned payments, except those that another gateway has locked.
    func abandoned(before deadline: Int64) -> StoredStatement {
        StoredStatement(
            Self.findAbandoned(before: deadline).sql + (lock.isEmpty ? "" : lock + " SKIP LOCKED"),
            [.integer(deadline)], prepared: "lock_abandoned")
    }

    // MARK: Reading

    private static func state(_ text: String) throws -> PaymentState {
        guard let state = PaymentState(rawValue: text) else { throw PaymentStoreError.damaged(reason: "a state") }
        return state
    }

    static func listed(_ row: any StoredRow) throws -> ListedPayment {
        ListedPayment(
            place: .init(
                receivedAt: StoredTime.date(try row.integer(18)),
                key: .init(client: try row.text(0), tokenDigest: try row.bytes(1))), payment: try? payment(row))
    }

    static func payment(_ row: any StoredRow) throws -> Payment {
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

    private static func transaction(_ row: any StoredRow) throws -> PaymentTransaction? {
        guard let identifier = try row.bytesIfAny(9) else { return nil }
        return try PaymentTransaction(
            identifier: identifier, merchantIdentifier: row.textIfAny(10), minorUnits: row.integerIfAny(11),
            currency: row.textIfAny(12), processor: row.textIfAny(13), accountDigest: row.bytesIfAny(20))
    }
}
