public import GRDB
import GRDBSQLite
import Glibc
import Locks

/// Makes SQLite fail at a connection's commits.
public final class SQLiteFaults: TransactionObserver, Sendable {
    private let beforeCommit: @Sendable () throws -> Void
    private let losesAcknowledgement: @Sendable () -> Bool

    /// Makes an observer with two hooks. It has no effect before it is installed on a connection.
    ///
    /// - Parameters:
    ///   - beforeCommit: called before each commit. If it throws, the transaction is rolled back; while it blocks,
    ///     the commit hangs.
    ///   - losesAcknowledgement: called after each commit. If it returns true, the commit fails with an I/O error
    ///     although it has taken place.
    public init(
        beforeCommit: @escaping @Sendable () throws -> Void = {},
        losesAcknowledgement: @escaping @Sendable () -> Bool = { false }
    ) {
        self.beforeCommit = beforeCommit
        self.losesAcknowledgement = losesAcknowledgement
    }

    public func install(on connection: DatabaseQueue) async throws {
        try await connection.writeWithoutTransaction { [self] db in
            db.add(transactionObserver: self, extent: .databaseLifetime)
            // SQLite documents that an error of this hook becomes the statement's error, although the commit has taken
            // place.
            _ = unsafe sqlite3_wal_hook(
                db.sqliteConnection,
                { context, _, _, _ in
                    guard let context = unsafe context else { return SQLITE_OK }
                    let faults = unsafe Unmanaged<SQLiteFaults>.fromOpaque(context).takeUnretainedValue()
                    return faults.losesAcknowledgement() ? SQLITE_IOERR : SQLITE_OK
                }, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    public func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    public func databaseDidChange(with event: DatabaseEvent) {}
    public func databaseWillCommit() throws { try beforeCommit() }
    public func databaseDidCommit(_ db: Database) {}
    public func databaseDidRollback(_ db: Database) {}
}

/// Makes SQLite hang while it opens a file, as if the disk did not answer.
public enum HangingFiles {
    private static let hangs = Mutex<[String: Hang]>([:])
    private nonisolated(unsafe) static let real = unsafe sqlite3_vfs_find(nil)

    /// Installs a VFS for the whole process that waits before it opens a file, and then calls SQLite's default VFS.
    private static let isInstalled: Bool = {
        guard let real = unsafe real else { return false }
        let waiting = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        unsafe waiting.initialize(to: real.pointee)
        unsafe waiting.pointee.zName = UnsafePointer(strdup("waiting"))
        unsafe waiting.pointee.xOpen = { _, name, file, flags, given in
            HangingFiles.pass(unsafe name.map { unsafe String(cString: $0) })
            guard let real = unsafe HangingFiles.real, let open = unsafe real.pointee.xOpen else {
                return SQLITE_CANTOPEN
            }
            return unsafe open(real, name, file, flags, given)
        }
        return unsafe sqlite3_vfs_register(waiting, 1) == SQLITE_OK
    }()

    /// Makes SQLite wait for `hang` before it opens the file.
    ///
    /// - Parameter path: the absolute path of the file that SQLite opens.
    public static func hang(_ path: String, _ hang: Hang) {
        precondition(isInstalled, "SQLite does not take another way to files")
        hangs.withLock { $0[path] = hang }
    }

    private static func pass(_ name: String?) {
        let hang = name.flatMap { name in hangs.withLock { $0[name] } }
        hang?.pass()
    }
}
