import Dispatch
public import Foundation
import GRDB
import SQLiteFiles
import Synchronization

/// Payments in one SQLite file, for one gateway. A lock beside the file (`.lock`) keeps a second one out.
public final class SQLitePaymentStore: PaymentStore {
    public let engine = "sqlite"
    public var unreadablePayments: Int { unreadable.count }
    private let unreadable = UnreadablePayments()
    /// Absolute.
    public let path: String
    private let lock: Mutex<DatabaseFileLock?>
    private let connections: SQLitePaymentConnections

    /// Opens the store, making it where there is none; blocks.
    ///
    /// - Parameter path: absolute; its directory is there and writable for nobody else.
    public convenience init(path: String) throws(PaymentStoreOpeningError) {
        try self.init(path: path, faults: SQLitePaymentFaults())
    }

    /// Examines the file's place as the opening does, and makes nothing; not in a process that has the store open.
    public static func examine(path: String) throws(PaymentStoreOpeningError) {
        do throws(DatabaseFileError) { try PrivateDatabaseFile(path: path).examine() } catch {
            throw PaymentStoreOpeningError(error)
        }
    }

    init(path: String, faults: SQLitePaymentFaults) throws(PaymentStoreOpeningError) {
        let lock: DatabaseFileLock
        do { lock = try PrivateDatabaseFile(path: path).prepare() } catch { throw PaymentStoreOpeningError(error) }
        do {
            connections = try SQLitePaymentConnections(path: path, faults: faults)
        } catch {
            lock.release()
            throw PaymentStoreOpeningError(error, path: path)
        }
        self.path = path
        self.lock = Mutex(lock)
    }

    private var commits: SQLiteCommits {
        get throws(PaymentStoreError) { try connections.commits }
    }

    public func begin(
        _ arrival: PaymentArrival, at now: Date
    ) async throws(PaymentStoreError) -> PaymentBeginning {
        try await commits.write { db in
            let found = arrival.payment(
                among: try [
                    SQLitePaymentRows.find(arrival.key, db),
                    arrival.spelledKey.flatMap { try SQLitePaymentRows.find($0, db) }, Self.stated(arrival, db),
                ].compactMap(\.self))
            let after = try found.map { try SQLitePaymentRows.harmlessAttempts(at: $0.key, db) } ?? []
            if case .answer(let answer) = ArrivalRule(arrival, found: found, after: after, at: now) { return answer }
            let payment = arrival.begun(found, at: now)
            try SQLitePaymentRows.put(payment, db)
            try SQLitePaymentRows.note(payment, .received, by: nil, reason: nil, db)
            return .begun(payment, after: after)
        }
    }

    /// The client's own payment of the transaction that the token says it is.
    private static func stated(_ arrival: PaymentArrival, _ db: Database) throws -> Payment? {
        guard let transaction = arrival.statedTransaction else { return nil }
        let found = try SQLitePaymentRows.find(transaction: transaction, db)
        return found?.key.client == arrival.key.client ? found : nil
    }

    public func claim(
        _ payment: Payment, _ transaction: PaymentTransaction, as state: PaymentState, _ outcome: PaymentOutcome?,
        at now: Date
    ) async throws(PaymentStoreError) -> PaymentClaim {
        precondition(PaymentState.decrypted.mayBecome(state))
        return try await commits.write { db in
            let row = try SQLitePaymentRows.find(payment.key, db)
            let claimed = try payment.claimed(
                in: row, besides: SQLitePaymentRows.find(transaction: transaction.identifier, db), transaction,
                as: state, outcome, at: now)
            try SQLitePaymentRows.put(claimed.payment, db)
            for (state, reason) in claimed.history {
                try SQLitePaymentRows.note(claimed.payment, state, by: nil, reason: reason, db)
            }
            return claimed.claim
        }
    }

    public func end(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition([.notSent, .refused].contains(state))
        return try await change(payment, to: state, from: Payment.endable, outcome, at: now)
    }

    public func settle(
        _ payment: Payment, as state: PaymentState, _ outcome: PaymentOutcome, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(state == .pending || Payment.fates.contains(state))
        return try await commits.write { db in
            let settled = try payment.settled(
                in: SQLitePaymentRows.find(payment.key, db),
                besides: SQLitePaymentRows.find(transaction: payment.transaction?.identifier ?? [], db), as: state,
                outcome, at: now)
            if settled.isChanged { try SQLitePaymentRows.put(settled.payment, db) }
            for (state, reason) in settled.history {
                try SQLitePaymentRows.note(settled.noted, state, by: nil, reason: reason, db)
            }
            return settled.payment
        }
    }

    public func resolve(
        transaction: [UInt8], as state: PaymentState, by person: String, reason: String, at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        precondition(Payment.fates.contains(state))
        return try await commits.write { db in
            guard let row = try SQLitePaymentRows.find(transaction: transaction, db) else {
                throw PaymentStoreError.notFound
            }
            let changed = try row.resolved(as: state, at: now)
            try SQLitePaymentRows.put(changed, db)
            try SQLitePaymentRows.note(changed, state, by: person, reason: reason, db)
            return changed
        }
    }

    public func takeOverAbandoned(at now: Date) async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.milliseconds(now.addingTimeInterval(-Payment.clockMargin))
        // Looked for first without the lock on writing: nearly always there is none.
        let found = try await read { db in try SQLitePaymentRows.abandoned(before: latest, db) }
        guard !unreadable.readable(found).isEmpty else { return 0 }
        return try await commits.write { [unreadable] db in
            let abandoned = unreadable.readable(try SQLitePaymentRows.abandoned(before: latest, db))
            for payment in abandoned {
                let pending = try payment.interrupted(at: now)
                _ = try Self.write(pending, pending.outcome ?? PaymentOutcome(), db)
            }
            return abandoned.count
        }
    }

    public func prune() async throws(PaymentStoreError) -> Int {
        let latest = StoredTime.milliseconds(Date(timeIntervalSinceNow: -Payment.retention))
        // Searched first without the lock on writing: mostly there is none.
        guard try await read({ db in try SQLitePaymentRows.hasRemovable(before: latest, db) }) else { return 0 }
        return try await commits.write { db in try SQLitePaymentRows.removeRemovable(before: latest, db) }
    }

    public func payment(transaction: [UInt8]) async throws(PaymentStoreError) -> Payment? {
        try await read { db in try SQLitePaymentRows.find(transaction: transaction, db) }
    }

    public func payments(_ filter: PaymentFilter) async throws(PaymentStoreError) -> [Payment] {
        try await unreadable.list(filter) { filter throws(PaymentStoreError) in
            try await read { db in try SQLitePaymentRows.list(filter, db) }
        }
    }

    public func history(of key: Payment.Key) async throws(PaymentStoreError) -> [PaymentChange] {
        try await read { db in try SQLitePaymentRows.history(of: key, db) }
    }

    public func pending() async throws(PaymentStoreError) -> PendingPayments {
        try await read { db in try SQLitePaymentRows.pending(db) }
    }

    public func probe() async throws(PaymentStoreError) {
        try await connections.openForWriting()
        try await commits.write { db in try SQLitePaymentRows.writeAndTakeBack(db) }
    }

    public func close() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            DispatchQueue.global().async { [self] in
                connections.close()
                lock.withLock { lock in
                    lock?.release()
                    lock = nil
                }
                continuation.resume()
            }
        }
    }

    private func change(
        _ payment: Payment, to state: PaymentState, from states: Set<PaymentState>, _ outcome: PaymentOutcome,
        at now: Date
    ) async throws(PaymentStoreError) -> Payment {
        try await commits.write { db in
            let row = try SQLitePaymentRows.find(payment.key, db)
            return try Self.write(payment.changed(in: row, to: state, from: states, outcome, at: now), outcome, db)
        }
    }

    private static func write(_ changed: Payment, _ outcome: PaymentOutcome, _ db: Database) throws -> Payment {
        try SQLitePaymentRows.put(changed, db)
        try SQLitePaymentRows.note(changed, changed.state, by: nil, reason: outcome.reason, db)
        return changed
    }

    private func read<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(PaymentStoreError) -> Value {
        let (reader, place) = try connections.reader
        let result: Result<Value, PaymentStoreError> = await withCheckedContinuation { continuation in
            reader.asyncRead { database in
                let result = Result {
                    try place.requireUnchanged()
                    return try body(database.get())
                }
                continuation.resume(returning: result.mapError { PaymentStoreError($0) })
            }
        }
        return try result.get()
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
            self = .notNow(place: path, reason: PaymentStoreError.reason(of: error))
        default: self = .cannotOpen(place: path, reason: PaymentStoreError.reason(of: error))
        }
    }
}
