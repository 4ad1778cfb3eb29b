import DatabaseKit
import Foundation
import GRDB
package import Ledger
package import SQLiteFiles

/// The four connections to one ledger: the writer, one that copies the write-ahead log into the file, one for short
/// reads, and one for searches. A long search thus delays neither a write nor a short read.
///
/// Each connection is a serial queue on GRDB's own threads, so a waiting task occupies no task thread. Cancelling a
/// task does not interrupt its call. Otherwise the outcome of a commit could become unknown.
package final class SQLiteConnections: Sendable {
    let writer: DatabaseQueue
    let checkpointing: WALCheckpointing
    /// The connection for short reads, on which decisions and requests depend.
    package let reader: SQLiteReader<LedgerFailure>
    /// The connection for reads that may take long. Such reads delay only each other.
    package let searcher: SQLiteReader<LedgerFailure>

    /// Opens the connections; blocks. Throws GRDB's errors and ``LedgerOpeningError``.
    ///
    /// - Parameter prepare: runs on the writing connection before the reading connections are opened.
    init(
        path: String, busyTimeout: TimeInterval, deadlines: LedgerDeadlines, prepare: (Database) throws -> Void
    ) throws {
        writer = try DurableSQLite.writing(
            path, label: "ledger.writer", checkpointPages: WALCheckpointing.maximumPages, busyTimeout: busyTimeout)
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

    /// Closes the connections; blocks until current work has ended.
    func close() throws {
        try searcher.close()
        try reader.close()
        try checkpointing.close()
        try writer.close()
    }
}
