import Foundation
import GRDB
import GRDBSQLite
import Ledger
import Locks
import SQLiteFiles

// Unsafe: SQLite writes only the two numbers, while the connection is open.

/// Copies the write-ahead log into the database's file while the writer continues.
///
/// SQLite by default copies in the commit that makes the log too long. That is about every thousandth release. Each
/// release that waits for that commit or the next one takes 20 ms longer. Here a separate connection copies while the
/// writer continues, since a PASSIVE checkpoint blocks no connection. The connection then copies the pages that were
/// added in the meantime. The writer copies the few remaining pages between two batches. SQLite restarts the log only
/// if all of it is copied and nothing is added in between.
///
/// A failed copy loses nothing, since the log keeps the pages. The copy is retried after the next ``interval``. A long
/// read prevents the log from restarting, as with SQLite's default.
package final class WALCheckpointing: Sendable {
    /// The log's length in pages before it is copied: 16 MiB instead of SQLite's 4, so that pages changed by many
    /// commits are copied once. On a full disk this leaves 12 MiB less for records.
    static let interval = 4000
    /// The log's length in pages at which the commit itself copies it, in case concurrent copying is too slow or fails.
    package static let maximumPages = 4 * interval

    private enum State {
        /// The number of pages that the writer has written since the log was last copied.
        case writing(pages: Int)
        /// The separate connection is copying.
        case copying
        /// The separate connection has finished copying. The writer copies the pages that were added since then after
        /// its next batch.
        case copied
        /// The separate connection is closed or is being closed. Using it now would make SQLite end the process.
        case closed
    }

    private let interval: Int
    private let connection: DatabaseQueue
    private let state = Mutex(State.writing(pages: 0))

    /// Opens the connection; blocks. Throws GRDB's errors.
    ///
    /// - Parameter interval: the number of log pages after which they are copied.
    init(path: String, busyTimeout: TimeInterval, interval: Int = WALCheckpointing.interval) throws {
        self.interval = interval
        var configuration = Configuration()
        configuration.label = "ledger.checkpoints"
        configuration.qos = DurableSQLite.threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            // Sync the file before the log restarts and overwrites pages. Otherwise a power failure could lose them.
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
        }
        connection = try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Adds the pages of the last batch to the count, and starts or finishes a copy if needed. Called between two
    /// batches, on the writer's thread.
    func committed(_ writer: Database) {
        let written = Self.takePagesWritten(writer)
        let isCopied = state.withLock { state in
            switch state {
            case .writing(let pages) where pages + written < interval:
                state = .writing(pages: pages + written)
            case .writing:
                state = .copying
                // Queue the copy under the lock. Otherwise `close()` could close the connection first, and using it
                // then would make SQLite end the process.
                copy()
            case .copying, .closed: break
            case .copied:
                state = .writing(pages: 0)
                return true
            }
            return false
        }
        if isCopied { Self.checkpoint(writer) }
    }

    /// True while the separate connection copies.
    var isCopying: Bool {
        state.withLock { if case .copying = $0 { true } else { false } }
    }

    private func copy() {
        connection.asyncWriteWithoutTransaction { [self] db in
            // Copy twice: the second copy is shorter, so fewer pages are added while it runs.
            Self.checkpoint(db)
            Self.checkpoint(db)
            state.withLock { if case .copying = $0 { $0 = .copied } }
        }
    }

    private static func checkpoint(_ db: Database) {
        _ = try? db.checkpoint(.passive)
    }

    /// Returns the number of pages that the connection has written since the last call. All of them are in the log and
    /// have to be copied.
    private static func takePagesWritten(_ db: Database) -> Int {
        var (pages, highest) = (CInt(0), CInt(0))
        let code = unsafe sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_CACHE_WRITE, &pages, &highest, 1)
        return code == SQLITE_OK ? Int(pages) : 0
    }

    /// Closes the connection; blocks until current work has ended. The writer may continue, and copies the remaining
    /// pages when it is closed.
    func close() throws {
        state.withLock { $0 = .closed }
        try connection.close()
    }
}
