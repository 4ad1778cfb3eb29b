import DatabaseKit
import Foundation
import GRDB
import Locks
import SQLiteFiles

/// Payments in one SQLite file, for one gateway. A lock file next to it (`.lock`) excludes a second gateway.
public final class SQLitePaymentStore: StoredPaymentStore {
    public let engine = "sqlite"
    /// Only one connection writes, so no row needs a lock.
    static let rows = PaymentRows(lock: "")
    let unreadable = UnreadablePayments()
    /// The absolute path of the file.
    public let path: String
    private let lock: Mutex<DatabaseFileLock?>
    let connections: SQLitePaymentConnections

    /// Opens the store, and creates it if there is none; blocks.
    ///
    /// - Parameters:
    ///   - path: absolute. Its directory must exist, and no other account may be able to write to it.
    ///   - timeout: the time limit of each change and each query.
    public init(path: String, timeout: Duration = .seconds(10)) throws(PaymentStoreOpeningError) {
        let lock: DatabaseFileLock
        do { lock = try PrivateDatabaseFile(path: path).prepare() } catch { throw PaymentStoreOpeningError(error) }
        do {
            connections = try SQLitePaymentConnections(path: path, deadlines: Deadlines(timeout: timeout))
        } catch {
            lock.release()
            throw PaymentStoreOpeningError(error, path: path)
        }
        self.path = path
        self.lock = Mutex(lock)
    }

    /// Makes the same checks of the file's location as opening the store, but creates nothing. Do not call it in a
    /// process that has the store open.
    public static func examine(path: String) throws(PaymentStoreOpeningError) {
        do throws(DatabaseFileError) { try PrivateDatabaseFile(path: path).examine() } catch {
            throw PaymentStoreOpeningError(error)
        }
    }

    static func unsentAttempts(at arrival: PaymentArrival) -> StoredStatement {
        func newest(at digest: String) -> String {
            """
            SELECT * FROM (SELECT token_digest, attempt FROM payment_change
            WHERE client = $1 AND token_digest = \(digest) AND state IN ('not_sent', 'refused')
            ORDER BY number DESC LIMIT \(Payment.maximumFreeAttempts))
            """
        }
        return StoredStatement(
            """
            \(newest(at: "$2")) UNION ALL \(newest(at: "$3")) UNION ALL
            \(newest(at: """
                (SELECT token_digest FROM payment WHERE transaction_id = $4 AND client = $1 AND token_digest <> $2
                    AND token_digest IS NOT $3)
                """))
            """,
            [
                .text(arrival.key.client), .bytes(arrival.key.tokenDigest), .bytes(arrival.originalKey?.tokenDigest),
                .bytes(arrival.statedTransaction),
            ])
    }

    func change<Value: Sendable>(
        arriving: Payment.Key?, _ reading: [StoredStatement],
        _ decide: @escaping @Sendable ([[any StoredRow]]) throws -> (value: Value, writing: [StoredStatement])
    ) async throws(PaymentStoreError) -> Value {
        try await connections.writer.write(
            { db, _ -> (value: Value, line: Int64?) in
                let (value, writing) = try decide(try reading.map { try db.run($0) })
                for statement in writing { try db.run(statement) }
                return (value, writing.isEmpty ? nil : db.lastInsertedRowID)
            },
            // Each history line has a unique number. If the last line that the transaction wrote exists, the
            // transaction was committed.
            readBack: { decided, db in
                guard let line = decided.line else { return nil }
                let found = try db.number("SELECT count(*) FROM payment_change WHERE number = $1", [.integer(line)])
                return found == 1 ? decided : nil
            }
        ).value
    }

    func read<Value: Sendable>(
        _ statement: StoredStatement, _ value: @escaping @Sendable ([any StoredRow]) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let (reader, place) = try connections.reader
        do throws(PaymentStoreError) {
            return try await reader.read { db in
                try place.requireUnchanged()
                return try value(db.run(statement))
            }
        } catch .inDoubt(let reason) {
            throw .unavailable(reason: reason)
        }
    }

    public func prune() async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.nearestMilliseconds(Date(timeIntervalSinceNow: -Payment.retention))
        // Usually no payment can be removed, so the search first runs without the write lock.
        guard try await !read(Self.removable(before: latest, limit: 1), { $0.isEmpty }) else { return 0 }
        return try await connections.writer.write(
            { db, _ in try Self.removeRemovable(before: latest, db) }, readBack: { _, _ in nil })
    }

    /// Selects the oldest removable payments. The query names its index, because SQLite would otherwise choose the
    /// index by transaction and read every payment without a transaction.
    private static func removable(before time: Int64, limit: Int) -> StoredStatement {
        StoredStatement(
            """
            SELECT client, token_digest FROM payment INDEXED BY payment_removable
            WHERE state IN ('received', 'not_sent', 'refused') AND transaction_id IS NULL AND changed_at < $1
            ORDER BY changed_at LIMIT $2
            """, [.integer(time), .integer(limit)])
    }

    /// Removes the oldest 250 removable payments with their history, but at most 750 rows. That takes about 60 ms,
    /// during which changes wait. A longer history is removed in several calls, and its payment in the last one.
    private static func removeRemovable(before time: Int64, _ db: Database) throws -> Int {
        var (remaining, removed) = (3 * 250, 0)
        for row in try db.run(removable(before: time, limit: 250)) {
            let place: [StoredValue] = [.text(try row.text(0)), .bytes(try row.bytes(1))]
            // The oldest lines are removed first, so that a history that is not yet removed completely has no gap.
            try db.run(
                """
                DELETE FROM payment_change WHERE number IN (
                    SELECT number FROM payment_change WHERE client = $1 AND token_digest = $2 ORDER BY number LIMIT $3)
                """, place + [.integer(remaining)])
            remaining -= db.changesCount
            guard remaining > 0 else { break }
            try db.run("DELETE FROM payment WHERE client = $1 AND token_digest = $2", place)
            remaining -= 1
            removed += 1
        }
        return removed
    }

    public func probe() async throws(PaymentStoreError) {
        try await connections.openForWriting()
        // The probe leaves no row, so reading the database cannot tell if its commit succeeded.
        try await connections.writer.write({ db, _ in try Self.writeAndRollBack(db) }, readBack: { _, _ in nil })
    }

    /// Makes the same writes as for a new payment, and undoes them. No row remains, but the commit writes every touched
    /// page to the write-ahead log. An update that changes nothing would write no page.
    private static func writeAndRollBack(_ db: Database) throws {
        var generator = SystemRandomNumberGenerator()
        let digest = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        let now = Date()
        let payment = Payment(
            key: .init(client: "", tokenDigest: digest), purpose: .payment, requestDigest: digest, orderId: nil,
            state: .received, attempt: PaymentAttempt(owner: "probe", deadline: now), receivedAt: now, changedAt: now)
        try db.inSavepoint {
            try db.run(PaymentRows.upsert(payment))
            try db.run(PaymentRows.insertChange(payment, payment.state, reason: nil))
            return .rollback
        }
    }

    public func close() async {
        await onThread { [self] in
            connections.close()
            lock.withLock { lock in
                lock?.release()
                lock = nil
            }
        }
    }
}

extension PaymentStoreOpeningError {
    fileprivate init(_ error: DatabaseFileError) {
        self =
            switch error {
            case .noDirectory(let path): .noDirectory(path: path)
            case .notPrivate(let path, let why): .notPrivate(path: path, why: why)
            case .inUse(let path): .inUse(path: path)
            case .notDurable(let path, let why): .notDurable(place: path, why: why)
            case .cannotOpen(let path, let reason): .cannotOpen(place: path, reason: reason)
            case .notNow(let path, let reason): .notNow(place: path, reason: reason)
            }
    }

    fileprivate init(_ error: any Error, path: String) {
        switch error {
        case let error as PaymentStoreOpeningError: self = error
        case let error as DatabaseFileError: self.init(error)
        case let error as DatabaseError where error.resultCode == .SQLITE_NOTADB: self = .notAStore(place: path)
        case let error as DatabaseError
        where [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_READONLY].contains(error.resultCode):
            self = .notNow(place: path, reason: PaymentStoreError(error).reason)
        default: self = .cannotOpen(place: path, reason: PaymentStoreError(error).reason)
        }
    }
}
