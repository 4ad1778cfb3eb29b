import Foundation
import GRDB
import PostgreSQLClient
import Synchronization

/// The connections to one ledger: one writes; one copies the write-ahead log into the file; one only reads what decisions
/// need, one only reads what people look for, so that a long search stalls neither a write nor a decision.
///
/// Each is a serial queue of its own threads (GRDB's); a task that waits for it holds none of the threads
/// that tasks run on. Cancelling the task does not interrupt what it asked for: a commit is not left half known.
final class SQLiteConnections: Sendable {
    private let writer: DatabaseQueue
    let checkpointing: WALCheckpointing
    let reader: SQLiteReader
    private let searcher: SQLiteReader

    /// GRDB's own choice is a higher one. libdispatch then raises the threads' priority, which an ordinary user may not,
    /// and says so on standard error each time.
    static let threadQuality = DispatchQoS.default

    /// Blocks; throws GRDB's errors and ``LedgerOpeningError``.
    ///
    /// - Parameter prepare: runs on the writing connection before the reading one is opened.
    init(
        path: String, busyTimeout: TimeInterval, deadlines: LedgerDeadlines, prepare: (Database) throws -> Void
    ) throws {
        writer = try Self.writing(path, busyTimeout: busyTimeout)
        try writer.writeWithoutTransaction { db in
            try Self.requireDurability(db, path: path)
            try prepare(db)
        }
        checkpointing = try WALCheckpointing(path: path, busyTimeout: busyTimeout)
        reader = SQLiteReader(
            try Self.reading(path, label: "ledger.reader", busyTimeout: busyTimeout), deadlines: deadlines)
        searcher = SQLiteReader(
            try Self.reading(path, label: "ledger.searcher", busyTimeout: busyTimeout), deadlines: deadlines)
    }

    /// The one connection that writes, with the settings on which a commit's durability depends; blocks.
    static func writing(_ path: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "ledger.writer"
        configuration.qos = Self.threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.foreignKeysEnabled = true
        // Otherwise GRDB ends the process when a rollback fails and leaves its transaction open; ``GRDB/Database/durably(_:)``
        // deals with that.
        configuration.allowsUnsafeTransactions = true
        // Not GRDB's own journal modes: asked for WAL, it lowers synchronous to NORMAL, with which a loss of power
        // takes back the last commits.
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = \(WALCheckpointing.mostPages)")
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            // Savepoints need no room in a directory for temporary files, which may be full or not writable.
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// A connection that only reads; blocks.
    static func reading(_ path: String, label: String, busyTimeout: TimeInterval) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = label
        configuration.qos = Self.threadQuality
        configuration.readonly = true
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            try db.execute(sql: "PRAGMA temp_store = MEMORY")
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Checks the settings that are in force, which need not be those that were asked for.
    static func requireDurability(_ db: Database, path: String) throws {
        let journal = try String.fetchOne(db, sql: "PRAGMA journal_mode")
        guard journal == "wal" else {
            throw LedgerOpeningError.notDurable(
                path: path, why: "SQLite uses the journal mode \(journal ?? "unknown") there, not wal")
        }
        let synchronous = try Int.fetchOne(db, sql: "PRAGMA synchronous")
        guard synchronous == 2 else {
            throw LedgerOpeningError.notDurable(path: path, why: "SQLite's synchronous setting is not FULL")
        }
    }

    /// Runs on the writing connection, after what was handed to it before; the caller does not wait.
    func onWriter(_ body: @escaping @Sendable (Database) -> Void) {
        writer.asyncWriteWithoutTransaction(body)
    }

    /// For reads that are short.
    func read<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(LedgerFailure) -> T {
        try await reader.read(body)
    }

    /// For reads that may take long; they wait for each other only.
    func search<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(LedgerFailure) -> T {
        try await searcher.read(body)
    }

    /// Blocks until what is under way has ended.
    func close() throws {
        try searcher.close()
        try reader.close()
        try checkpointing.close()
        try writer.close()
    }
}

extension LedgerFailure {
    /// Only SQLite's code and its fixed sentence: a statement's values stay out of logs.
    init(_ error: any Error) {
        switch error {
        case let error as LedgerFailure: self = error
        case let error as KeyRecordConflict: self = .conflict(error)
        case let error as ApprovalConflict: self = .approval(error)
        case let error as DatabaseError:
            self = .unavailable(reason: "SQLite says \(error.extendedResultCode).")
        case let error as PostgreSQLFailure: self = error.failure
        case let error as PostgreSQLRowError: self = error.failure
        default: self = .unavailable(reason: "\(type(of: error)).")
        }
    }
}

extension Database {
    /// BEGIN IMMEDIATE … COMMIT: the lock is taken first, so that what is read inside stays true until the commit.
    func durably<T>(_ body: () throws -> T) throws -> T {
        try leaveTransaction()
        var result: Result<T, any Error>?
        try inTransaction(.immediate) {
            result = .success(try body())
            return .commit
        }
        guard let result else { throw LedgerFailure.unavailable(reason: "The transaction gave no result.") }
        return try result.get()
    }

    /// A rollback can fail together with its transaction, when a disk vanishes. Until it has succeeded, reads see what was
    /// never committed, and no other transaction can begin.
    func leaveTransaction() throws {
        if isInsideTransaction { try rollback() }
        guard !isInsideTransaction else {
            throw LedgerFailure.unavailable(reason: "A transaction that failed cannot be rolled back.")
        }
    }
}

/// A connection that only reads, one read after the other.
///
/// Whoever waits for it waits until the ledger's deadline. A read whose deadline passes before it has begun is left
/// out, and one that is under way is interrupted, so that a search that takes too long does not keep the others waiting.
final class SQLiteReader: Sendable {
    /// More wait only for a disk that hangs.
    static let capacity = 1024

    private struct State {
        var waiting = 0
        /// The read under way.
        var running: UInt64?
        var next: UInt64 = 0
    }

    private let connection: DatabaseQueue
    private let deadlines: LedgerDeadlines
    private let state = Mutex(State())

    init(_ connection: DatabaseQueue, deadlines: LedgerDeadlines) {
        self.connection = connection
        self.deadlines = deadlines
    }

    func read<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(LedgerFailure) -> T {
        let entered = state.withLock { state -> UInt64? in
            guard state.waiting < Self.capacity else { return nil }
            state.waiting += 1
            state.next += 1
            return state.next
        }
        guard let number = entered else { throw .overloaded }
        do throws(LedgerFailure) {
            return try await deadlines.answer { caller in
                connection.asyncRead { [self] database in
                    defer { state.withLock { $0.waiting -= 1 } }
                    // Before it begins: a deadline that passes from then on finds what to interrupt.
                    state.withLock { $0.running = number }
                    let result = caller.begin() ? Self.result { try body(try database.get()) } : nil
                    state.withLock { $0.running = nil }
                    if let result { caller.resume(result) }
                }
            }
        } catch {
            if case .timedOut = error { interrupt(number) }
            throw error
        }
    }

    /// How many reads wait, with the one under way and those whose deadline has passed.
    var waiting: Int { state.withLock { $0.waiting } }

    /// Inside the lock: the next read must not be taken for this one.
    private func interrupt(_ number: UInt64) {
        state.withLock { if $0.running == number { connection.interrupt() } }
    }

    /// Blocks until what is under way has ended.
    func close() throws { try connection.close() }

    private static func result<T>(_ body: () throws -> T) -> Result<T, LedgerFailure> {
        do {
            return .success(try body())
        } catch {
            return .failure(LedgerFailure(error))
        }
    }
}
