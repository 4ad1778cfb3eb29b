import DatabaseKit
import Foundation
import GRDB
import SQLiteFiles

/// The connections to one ledger: one writes; one copies the write-ahead log into the file; one only reads what decisions
/// need, one only reads what people look for, so that a long search stalls neither a write nor a decision.
///
/// Each is a serial queue of its own threads (GRDB's); a task that waits for it holds none of the threads
/// that tasks run on. Cancelling the task does not interrupt what it asked for: a commit is not left half known.
final class SQLiteConnections: Sendable {
    let writer: DatabaseQueue
    let checkpointing: WALCheckpointing
    /// For reads that are short.
    let reader: SQLiteReader<LedgerFailure>
    /// For reads that may take long; they wait for each other only.
    let searcher: SQLiteReader<LedgerFailure>

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

    /// Blocks until what is under way has ended.
    func close() throws {
        try searcher.close()
        try reader.close()
        try checkpointing.close()
        try writer.close()
    }
}
