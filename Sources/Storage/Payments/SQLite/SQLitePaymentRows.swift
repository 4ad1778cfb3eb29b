import Encodings
import Foundation
import GRDB
import SQLiteFiles

/// Payments as rows.
enum SQLitePaymentRows {
    static let columns = """
        client, token_digest, purpose, request_digest, order_id, state, attempt, owner, deadline, transaction_id,
        merchant_identifier, minor_units, currency, processor, reason, authorization_code, processor_reference,
        processed_at, received_at, changed_at, account_digest
        """

    static func find(_ key: Payment.Key, _ db: Database) throws -> Payment? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(columns) FROM payment WHERE client = ? AND token_digest = ?"),
            arguments: [key.client, Data(key.tokenDigest)]
        ).map(read)
    }

    static func find(transaction: [UInt8], _ db: Database) throws -> Payment? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT \(columns) FROM payment WHERE transaction_id = ?"),
            arguments: [Data(transaction)]
        ).map(read)
    }

    /// Writes all of it; a key that is known is overwritten.
    static func put(_ payment: Payment, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO payment (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (client, token_digest) DO UPDATE SET purpose = excluded.purpose,
                    request_digest = excluded.request_digest, order_id = excluded.order_id, state = excluded.state,
                    attempt = excluded.attempt, owner = excluded.owner, deadline = excluded.deadline,
                    transaction_id = excluded.transaction_id, merchant_identifier = excluded.merchant_identifier,
                    minor_units = excluded.minor_units, currency = excluded.currency, processor = excluded.processor,
                    reason = excluded.reason, authorization_code = excluded.authorization_code,
                    processor_reference = excluded.processor_reference, processed_at = excluded.processed_at,
                    changed_at = excluded.changed_at, account_digest = excluded.account_digest
                """
        ).execute(arguments: [
            payment.key.client, Data(payment.key.tokenDigest), payment.purpose.rawValue, Data(payment.requestDigest),
            payment.orderId, payment.state.rawValue, Data(payment.attempt.identifier), payment.attempt.owner,
            StoredTime.milliseconds(payment.attempt.deadline), payment.transaction.map { Data($0.identifier) },
            payment.transaction?.merchantIdentifier, payment.transaction?.amount?.minorUnits,
            payment.transaction?.amount?.currency.letters, payment.transaction?.processor, payment.outcome?.reason,
            payment.outcome?.authorizationCode, payment.outcome?.processorReference,
            payment.outcome?.processedAt.map(StoredTime.milliseconds), StoredTime.milliseconds(payment.receivedAt),
            StoredTime.milliseconds(payment.changedAt), payment.transaction?.accountDigest.map { Data($0) },
        ])
    }

    /// A line of history.
    static func note(
        _ payment: Payment, _ state: PaymentState, by person: String?, reason: String?, _ db: Database
    ) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO payment_change (client, token_digest, state, attempt, at, by, reason)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(arguments: [
            payment.key.client, Data(payment.key.tokenDigest), state.rawValue, Data(payment.attempt.identifier),
            StoredTime.milliseconds(payment.changedAt), person ?? payment.attempt.owner, reason,
        ])
    }

    /// Writes what a payment's arrival writes, and takes it back: no row is left, and the commit writes every page that was
    /// touched to the log of committed changes. An update that changes nothing writes no page.
    static func writeAndTakeBack(_ db: Database) throws {
        var generator = SystemRandomNumberGenerator()
        let digest = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let now = Date()
        let payment = Payment(
            key: .init(client: "", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
            state: .received, attempt: PaymentAttempt(owner: "probe", deadline: now), receivedAt: now, changedAt: now)
        try db.inSavepoint {
            try put(payment, db)
            try note(payment, payment.state, by: nil, reason: nil, db)
            return .rollback
        }
    }

    /// The payment's attempts that ended without sending anything, the newest first, at most ``Payment/mostFreeAttempts``. Each has
    /// one such line.
    static func harmlessAttempts(at key: Payment.Key, _ db: Database) throws -> [[UInt8]] {
        try Data.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT attempt FROM payment_change
                    WHERE client = ? AND token_digest = ? AND state IN ('not_sent', 'refused')
                    ORDER BY number DESC LIMIT \(Payment.mostFreeAttempts)
                    """), arguments: [key.client, Data(key.tokenDigest)]
        ).map { Array($0) }
    }

    static func history(of key: Payment.Key, _ db: Database) throws -> [PaymentChange] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT number, state, attempt, at, by, reason FROM payment_change
                    WHERE client = ? AND token_digest = ? ORDER BY number LIMIT 1000
                    """), arguments: [key.client, Data(key.tokenDigest)]
        ).map { row in
            PaymentChange(
                number: try row.value("number"), state: try state(row),
                attempt: Hexadecimal.encode(Array(try row.value("attempt") as Data)),
                at: StoredTime.date(try row.value("at")), by: try row.value("by"),
                reason: try row.value("reason"))
        }
    }

    static func list(_ filter: PaymentFilter, _ db: Database) throws -> [ListedPayment] {
        var (conditions, arguments): ([String], StatementArguments) = ([], [])
        if let client = filter.client {
            conditions.append("client = ?")
            arguments += [client]
        }
        if !filter.states.isEmpty {
            conditions.append("state IN (\(filter.states.map { "'\($0.rawValue)'" }.sorted().joined(separator: ", ")))")
        }
        if let processor = filter.processor {
            conditions.append("processor = ?")
            arguments += [processor]
        }
        if let since = filter.since {
            conditions.append("received_at >= ?")
            arguments += [StoredTime.milliseconds(since)]
        }
        if let after = filter.after {
            conditions.append("(received_at, client, token_digest) \(filter.oldestFirst ? ">" : "<") (?, ?, ?)")
            arguments += [StoredTime.milliseconds(after.receivedAt), after.key.client, Data(after.key.tokenDigest)]
        }
        let clause = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
        let order = filter.oldestFirst ? "ASC" : "DESC"
        return try Row.fetchAll(
            db,
            sql:
                """
                SELECT \(columns) FROM payment \(clause)
                ORDER BY received_at \(order), client \(order), token_digest \(order) LIMIT ?
                """,
            arguments: arguments + [filter.limit]
        ).map(listed)
    }

    static func pending(_ db: Database) throws -> PendingPayments {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: "SELECT count(*) AS count, min(received_at) AS oldest FROM payment WHERE state = 'pending'"))
        let oldest: Int64? = try row?.value("oldest")
        return PendingPayments(count: try row?.value("count") ?? 0, oldest: oldest.map(StoredTime.date))
    }

    static func abandoned(before deadline: Int64, _ db: Database) throws -> [ListedPayment] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT \(columns) FROM payment WHERE state = 'submitting' AND deadline < ? LIMIT 1000"),
            arguments: [deadline]
        ).map(listed)
    }

    /// Those that can be removed. SQLite would take the index of transactions, and read every row without one.
    private static let removable = """
        payment INDEXED BY payment_removable
        WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL AND changed_at < ?
        """

    static func hasRemovable(before time: Int64, _ db: Database) throws -> Bool {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT 1 FROM \(removable) LIMIT 1"), arguments: [time]) != nil
    }

    /// The oldest 250, and at most three rows for each of them: so many take some 60 ms, for which changes wait. A longer history
    /// goes in several calls, and its payment in the last.
    static func removeRemovable(before time: Int64, _ db: Database) throws -> Int {
        let found = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT client, token_digest FROM \(removable) ORDER BY changed_at LIMIT 250"),
            arguments: [time])
        var (remaining, removed) = (3 * 250, 0)
        for row in found {
            let (client, digest): (String, Data) = (try row.value("client"), try row.value("token_digest"))
            // The oldest first, so that what is left of a history is its end.
            try db.cachedStatement(
                sql: """
                    DELETE FROM payment_change WHERE number IN (
                        SELECT number FROM payment_change WHERE client = ? AND token_digest = ? ORDER BY number LIMIT ?)
                    """
            ).execute(arguments: [client, digest, remaining])
            remaining -= db.changesCount
            guard remaining > 0 else { break }
            try db.cachedStatement(sql: "DELETE FROM payment WHERE client = ? AND token_digest = ?").execute(
                arguments: [client, digest])
            remaining -= 1
            removed += 1
        }
        return removed
    }

    private static func state(_ row: Row) throws -> PaymentState {
        guard let state = PaymentState(rawValue: try row.value("state")) else {
            throw PaymentStoreError.damaged(reason: "a state")
        }
        return state
    }

    private static func listed(_ row: Row) throws -> ListedPayment {
        ListedPayment(
            place: .init(
                receivedAt: StoredTime.date(try row.value("received_at")),
                key: .init(client: try row.value("client"), tokenDigest: Array(try row.value("token_digest") as Data))),
            payment: try? read(row))
    }

    private static func read(_ row: Row) throws -> Payment {
        guard let purpose = Payment.Purpose(rawValue: try row.value("purpose")) else {
            throw PaymentStoreError.damaged(reason: "a purpose")
        }
        let processedAt: Int64? = try row.value("processed_at")
        return Payment(
            key: .init(client: try row.value("client"), tokenDigest: Array(try row.value("token_digest") as Data)),
            purpose: purpose, requestDigest: Array(try row.value("request_digest") as Data),
            orderId: try row.value("order_id"), state: try state(row),
            attempt: PaymentAttempt(
                identifier: Array(try row.value("attempt") as Data), owner: try row.value("owner"),
                deadline: StoredTime.date(try row.value("deadline"))),
            transaction: try transaction(row),
            outcome: PaymentOutcome(
                storedReason: try row.value("reason"), authorizationCode: try row.value("authorization_code"),
                processorReference: try row.value("processor_reference"),
                processedAt: processedAt.map(StoredTime.date)),
            receivedAt: StoredTime.date(try row.value("received_at")),
            changedAt: StoredTime.date(try row.value("changed_at")))
    }

    private static func transaction(_ row: Row) throws -> PaymentTransaction? {
        guard let identifier: Data = try row.value("transaction_id") else { return nil }
        let accountDigest: Data? = try row.value("account_digest")
        return try PaymentTransaction(
            identifier: Array(identifier), merchantIdentifier: row.value("merchant_identifier"),
            minorUnits: row.value("minor_units"), currency: row.value("currency"), processor: row.value("processor"),
            accountDigest: accountDigest.map { Array($0) })
    }
}

/// Times in the store: whole milliseconds since 1970.
enum StoredTime {
    static func milliseconds(_ date: Date) -> Int64 { Int64((date.timeIntervalSince1970 * 1000).rounded()) }

    static func date(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}
