import Foundation
import GRDB
import PostgreSQLClient
import SQLiteFiles
import Synchronization

/// The connections to one ledger: one writes; one copies the write-ahead log into the file; one only reads what decisions
/// need, one only reads what people look for, so that a long search stalls neither a write nor a decision.
///
/// Each is a serial queue of its own threads (GRDB's); a task that waits for it holds none of the threads
/// that tasks run on. Cancelling the task does not interrupt what it asked for: a commit is not left half known.
final class SQLiteConnections: Sendable {
    private let writer: DatabaseQueue
    let checkpointing: WALCheckpointing
    /// For reads that are short.
    let reader: SQLiteReader
    /// For reads that may take long; they wait for each other only.
    let searcher: SQLiteReader

    /// Blocks; throws GRDB's errors and ``LedgerOpeningError``.
    ///
    /// - Parameter prepare: runs on the writing connection before the reading one is opened.
    init(
        path: String, busyTimeout: TimeInterval, deadlines: LedgerDeadlines, prepare: (Database) throws -> Void
    ) throws {
        writer = try DurableSQLite.writing(
            path, label: "ledger.writer", checkpointPages: WALCheckpointing.mostPages, busyTimeout: busyTimeout)
        try writer.writeWithoutTransaction { db in
            try DurableSQLite.requireDurability(db, path: path)
            try prepare(db)
        }
        checkpointing = try WALCheckpointing(path: path, busyTimeout: busyTimeout)
        reader = SQLiteReader(
            try DurableSQLite.reading(path, label: "ledger.reader", busyTimeout: busyTimeout), deadlines: deadlines)
        searcher = SQLiteReader(
            try DurableSQLite.reading(path, label: "ledger.searcher", busyTimeout: busyTimeout), deadlines: deadlines)
    }

    /// Runs on the writing connection, after what was handed to it before; the caller does not wait.
    func onWriter(_ body: @escaping @Sendable (Database) -> Void) {
        writer.asyncWriteWithoutTransaction(body)
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
        case let error as DatabaseFileReplaced: self = .unavailable(reason: error.description)
        case is TransactionLeftOpen:
            self = .unavailable(reason: "A transaction that failed cannot be rolled back.")
        case let error as PostgreSQLFailure: self = error.failure
        case let error as PostgreSQLRowError: self = .unreadable(column: error.column)
        default: self = .unavailable(reason: "\(type(of: error)).")
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
                    let result =
                        caller.begin()
                        ? Result { try body(try database.get()) }.mapError { LedgerFailure($0) } : nil
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
}
