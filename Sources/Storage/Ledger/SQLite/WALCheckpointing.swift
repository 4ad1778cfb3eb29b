import Foundation
import GRDB
import GRDBSQLite
import SQLiteFiles
import Synchronization

/// Copies what stands in the write-ahead log into the database's file, beside the writer.
///
/// SQLite's own way is to do it in the commit that makes the log too long: every thousandth release or so, and all that wait
/// for that commit and the next one, then wait 20 ms longer. Here a connection of its own copies while the writer goes
/// on (a PASSIVE checkpoint keeps nobody waiting), and once more what came meanwhile. The writer copies the rest between two
/// batches, a few pages, since SQLite begins the log anew only when all of it is copied and nothing comes in between.
///
/// What fails is left for the next time: the log keeps what is not copied. Whoever reads for long keeps the log from being
/// begun anew, as ever.
final class WALCheckpointing: Sendable {
    /// 16 MiB of log instead of SQLite's 4: pages that many commits change are copied once. At a full disk that is 12 MiB
    /// less for records.
    static let interval = 4000
    /// So long a log is copied by the commit that makes it so long: the copying beside cannot keep up, or cannot be done.
    static let mostPages = 4 * interval

    private enum State {
        /// The writer has written so many pages since the log was last copied.
        case writing(pages: Int)
        /// The connection beside copies.
        case copying
        /// It has copied; what came since is left.
        case copied
        /// The connection beside is closed, or about to be: with a closed one SQLite would end the process.
        case closed
    }

    private let interval: Int
    private let connection: DatabaseQueue
    private let state = Mutex(State.writing(pages: 0))

    /// Blocks; throws GRDB's errors.
    ///
    /// - Parameter interval: after how many pages of log it is copied.
    init(path: String, busyTimeout: TimeInterval, interval: Int = WALCheckpointing.interval) throws {
        self.interval = interval
        var configuration = Configuration()
        configuration.label = "ledger.checkpoints"
        configuration.qos = DurableSQLite.threadQuality
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            // The file is synced before the log is begun anew.
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
        }
        connection = try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Between two batches, on the writer's thread.
    func committed(_ writer: Database) {
        let written = Self.takePagesWritten(writer)
        let isCopied = state.withLock { state in
            switch state {
            case .writing(let pages) where pages + written < interval:
                state = .writing(pages: pages + written)
            case .writing:
                state = .copying
                // Under the lock, so that it stands in the connection's queue before its close does, or not at all.
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

    /// Whether the connection beside copies.
    var isCopying: Bool {
        state.withLock { if case .copying = $0 { true } else { false } }
    }

    private func copy() {
        connection.asyncWriteWithoutTransaction { [self] db in
            // Twice: the second time there is less, and less comes meanwhile.
            Self.checkpoint(db)
            Self.checkpoint(db)
            state.withLock { if case .copying = $0 { $0 = .copied } }
        }
    }

    private static func checkpoint(_ db: Database) {
        _ = try? db.checkpoint(.passive)
    }

    /// How many pages the connection has written since it was asked last: into the log, so all that is to be copied.
    private static func takePagesWritten(_ db: Database) -> Int {
        var (pages, highest) = (CInt(0), CInt(0))
        let code = unsafe sqlite3_db_status(db.sqliteConnection, SQLITE_DBSTATUS_CACHE_WRITE, &pages, &highest, 1)
        return code == SQLITE_OK ? Int(pages) : 0
    }

    /// Blocks until what is under way has ended. The writer may go on, and copies what is left when it is closed.
    func close() throws {
        state.withLock { $0 = .closed }
        try connection.close()
    }
}
