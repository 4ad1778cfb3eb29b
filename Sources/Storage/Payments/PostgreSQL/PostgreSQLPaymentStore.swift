import DatabaseKit
import Foundation
public import PostgreSQLClient

/// Payments in PostgreSQL, for several gateways.
///
/// Gateways that change one payment at the same time wait for the lock of the payment's row. Opening the store changes
/// no payment that is in progress, because another gateway may be working on it. Such a payment is taken over only
/// after its attempt's deadline.
public final class PostgreSQLPaymentStore: StoredPaymentStore {
    public let engine = "postgresql"
    /// The limit of a store's connections to the server.
    public static let maximumSessions = PostgreSQLPaymentSessions.count
    /// The server and the database for display, such as `db1:5432/paytoken_gateway`.
    public let place: String
    /// The permitted but insecure settings of the server and the role, when the store was opened.
    public let insecureSettings: Set<InsecureStoreSetting>
    static let rows = PaymentRows(lock: " FOR UPDATE")
    let unreadable = UnreadablePayments()
    private let sessions: PostgreSQLPaymentSessions
    private let doubt = CommitDoubt()

    /// Opens the store; blocks for at most `timeout`.
    ///
    /// - Parameters:
    ///   - passwordFile: read again for each session; nil for a login without a password.
    ///   - timeout: the limit of each change and each query.
    public convenience init(
        _ url: PostgreSQLURL, passwordFile: String?, timeout: Duration = .seconds(5)
    ) throws(PaymentStoreOpeningError) {
        try self.init(
            PostgreSQLHosts(url, passwordFile: passwordFile, timeout: timeout, application: "paytoken-gateway"))
    }

    init(_ hosts: PostgreSQLHosts) throws(PaymentStoreOpeningError) {
        let first = PostgreSQLPaymentSession(hosts)
        insecureSettings = InsecureStoreSetting.of(try first.open(until: .now + hosts.timeout).facts)
        place = hosts.url.server
        sessions = PostgreSQLPaymentSessions(hosts, first: first)
    }

    deinit { sessions.end() }

    /// The query stays fast with a long history. `BETWEEN` makes the planner use the index by payment and number, since
    /// no other index has the requested order. With `=` for the digest, the primary key would have that order too. The
    /// planner would then choose the primary key for a payment token with a large part of all history lines.
    static func unsentAttempts(at arrival: PaymentArrival) -> StoredStatement {
        func newest(at digest: String) -> String {
            """
            (SELECT token_digest, attempt FROM payment_change
            WHERE client = $1 AND token_digest BETWEEN \(digest) AND \(digest) AND state IN ('not_sent', 'refused')
            ORDER BY token_digest DESC, number DESC LIMIT \(Payment.maximumFreeAttempts))
            """
        }
        return StoredStatement(
            """
            \(newest(at: "$2")) UNION ALL \(newest(at: "$4")) UNION ALL
            SELECT stated.token_digest, stated.attempt
            FROM payment CROSS JOIN LATERAL \(newest(at: "payment.token_digest")) AS stated
            WHERE payment.transaction_id = $3 AND payment.client = $1 AND payment.token_digest <> $2
                AND payment.token_digest IS DISTINCT FROM $4
            """,
            [
                .text(arrival.key.client), .bytes(arrival.key.tokenDigest), .bytes(arrival.statedTransaction),
                .bytes(arrival.originalKey?.tokenDigest),
            ],
            prepared: "unsent_attempts")
    }

    func change<Value: Sendable>(
        arriving: Payment.Key?, _ reading: [StoredStatement],
        _ decide: @escaping @Sendable ([[any StoredRow]]) throws -> (value: Value, writing: [StoredStatement])
    ) async throws(PaymentStoreError) -> Value {
        let locks = arriving.map { [Self.lock($0)] } ?? []
        let transaction = PostgreSQLPaymentTransaction(reading: locks + reading) { results in
            try decide(Array(results.dropFirst(locks.count)))
        }
        return try await sessions.perform { [doubt] session, deadline in
            try transaction.perform(in: session, doubt, until: deadline)
        }
    }

    /// Locks the payment token until the transaction ends. Another arrival of the same payment token waits for this
    /// lock, even if the payment has no row yet that could be locked.
    private static func lock(_ key: Payment.Key) -> StoredStatement {
        let number = key.tokenDigest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return StoredStatement(
            "SELECT pg_advisory_xact_lock($1)", [.integer(Int64(bitPattern: number))], prepared: "lock_token")
    }

    func read<Value: Sendable>(
        _ statement: StoredStatement, _ value: @escaping @Sendable ([any StoredRow]) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        try await sessions.perform { session, deadline in
            try value(
                session.reading(until: deadline) {
                    try $0.exchange([PostgreSQLStatement(statement)], until: deadline)
                }[0].rows)
        }
    }

    public func prune() async throws(PaymentStoreError) -> Int {
        // The statement is a transaction of its own. An unacknowledged commit does no harm, since the next call removes
        // the payments that remain.
        try await read(StoredStatement("SELECT prune_payments(1000)", prepared: "prune_payments")) { rows in
            Int(try rows.first?.integer(0) ?? 0)
        }
    }

    public func probe() async throws(PaymentStoreError) {
        try await sessions.perform { [doubt] session, deadline in
            guard try !doubt.resolve(in: session, until: deadline) else { return }
            try PostgreSQLPaymentTransaction.probe.runAsProbe(in: session, doubt, until: deadline)
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
}
