import AuditChain
import Crypto
import DatabaseKit
import Foundation
import GRDB
import Glibc
import SQLiteFiles

/// Copies of the ledger's file, made by SQLite's backup interface: one consistent state, with what is still in the
/// write-ahead log, while others read and write.
///
/// A copy for keeping says of itself that it is one (``SQLiteRestoreMark``). Whoever puts it in a ledger's place, by whatever
/// means, gets a ledger that releases nothing before that is accepted: what was released after the copy is not in it.
enum SQLiteBackup {
    /// Pages that are copied, and bytes that are written, between two reports of progress.
    private static let (pagesInOneStep, unsyncedBytes): (CInt, Int) = (1024, 64 << 20)

    /// Copies a ledger that is in use; blocks.
    ///
    /// - Parameters:
    ///   - isAwaited: called after each step, which extends the caller's deadline. False ends the copy: its caller waits
    ///     no more.
    static func copy(
        of source: DatabaseFilePlace, busyTimeout: TimeInterval, node: String, to path: String, now: Date = Date(),
        isAwaited: @escaping () -> Bool
    ) -> Result<BackupFile, LedgerBackupError> {
        Result { () throws(LedgerBackupError) in
            do {
                let connection = try DurableSQLite.reading(
                    source.path, label: "ledger.backup", busyTimeout: busyTimeout)
                defer { try? connection.close() }
                return try connection.read { db in
                    // Now that it is open: not of another file than the one in use.
                    try source.requireUnchanged()
                    return try copy(db, node: node, to: path, markedAt: now, isAwaited: isAwaited)
                }
            } catch let error as LedgerBackupError {
                throw error
            } catch {
                throw .unavailable(reason: LedgerFailure(error).description)
            }
        }
    }

    /// Blocks. The copy appears under its name when it is whole and has reached the disk, and not before.
    ///
    /// - Parameter now: written into the copy's mark as the time when it was made.
    static func copy(
        _ source: Database, node: String, to path: String, markedAt now: Date,
        isAwaited: @escaping () -> Bool = { true }
    ) throws(LedgerBackupError) -> BackupFile {
        guard path.hasPrefix("/") else { throw .notAbsolute(path: path) }
        guard !LedgerFileExchange.exists(path) else { throw .exists(path: path) }
        let partial = path + ".partial"
        try makePrivate(partial)
        defer { unsafe unlink(partial) }
        let sequence: Int
        do {
            sequence = try fill(partial, from: source, node: node, markedAt: now, isAwaited: isAwaited)
        } catch let error as LedgerBackupError {
            throw error
        } catch let error as DatabaseError
            where [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(error.resultCode)
        {
            throw .cannotWrite(path: path, reason: "SQLite says \(error.extendedResultCode).")
        } catch {
            throw .unavailable(reason: LedgerFailure(error).description)
        }
        let (bytes, digest) = try finish(partial, isAwaited: isAwaited)
        // Unlike a renaming, a link replaces nothing that has come there meanwhile.
        guard unsafe link(partial, path) == 0 else {
            throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "linking")
        }
        try syncDirectory(of: path)
        return BackupFile(path: path, bytes: bytes, digest: digest, sequence: sequence)
    }

    private static func fill(
        _ path: String, from source: Database, node: String, markedAt now: Date, isAwaited: @escaping () -> Bool
    ) throws -> Int {
        var configuration = Configuration()
        configuration.qos = DurableSQLite.threadQuality
        configuration.prepareDatabase { db in
            // A copy that is not finished is not kept, and a finished one is synced below.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
        }
        let copy = try DatabaseQueue(path: path, configuration: configuration)
        let sequence = try copy.writeWithoutTransaction { db -> Int in
            let page = try Int.fetchOne(source, sql: "PRAGMA page_size") ?? 4096
            var synced = 0
            // In steps, and on the disk bit by bit: the sync of a large copy at its end would be one long silence. The
            // source's transaction is open all the time, so that no step begins the copy anew.
            try source.backup(to: db, pagesPerStep: pagesInOneStep) { progress in
                let written = progress.completedPageCount * page
                if written - synced >= unsyncedBytes {
                    try sync(path)
                    synced = written
                }
                try requireAwaited(isAwaited)
            }
            try requireAwaited(isAwaited)
            // One file that is complete by itself; the ledger makes it WAL again when it is opened.
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            let sequence =
                try db.tableExists("audit_record")
                ? Int.fetchOne(db, sql: "SELECT max(sequence) FROM audit_record WHERE node = ?", arguments: [node]) ?? 0
                : 0
            // No journal that a full disk could leave beside it.
            try db.execute(sql: "PRAGMA journal_mode = MEMORY")
            try SQLiteRestoreMark(restoredAt: StoredTime.milliseconds(now), end: sequence).write(db)
            return sequence
        }
        try copy.close()
        return sequence
    }

    private static func makePrivate(_ path: String) throws(LedgerBackupError) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "opening") }
        close(descriptor)
    }

    private static func requireAwaited(_ isAwaited: () -> Bool) throws(LedgerBackupError) {
        guard isAwaited() else { throw .unavailable(reason: "nobody waits for it any more.") }
    }

    private static func sync(_ path: String) throws(LedgerBackupError) {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(path, "opening") }
        defer { close(descriptor) }
        guard fdatasync(descriptor) == 0 else { throw cannotWrite(path, "fdatasync") }
    }

    /// Syncs the file and hashes it.
    private static func finish(_ path: String, isAwaited: () -> Bool) throws(LedgerBackupError) -> (Int, AuditDigest) {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(path, "opening") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard fsync(descriptor) == 0 else { throw cannotWrite(path, "fsync") }
        try requireAwaited(isAwaited)
        var hash = SHA256()
        var bytes = 0
        do {
            while let chunk = try file.read(upToCount: 1 << 20), !chunk.isEmpty {
                hash.update(data: chunk)
                bytes += chunk.count
                try requireAwaited(isAwaited)
            }
        } catch let error as LedgerBackupError {
            throw error
        } catch {
            throw .cannotWrite(path: path, reason: "it cannot be read back.")
        }
        guard let digest = AuditDigest(bytes: Array(hash.finalize())) else {
            throw .cannotWrite(path: path, reason: "it has no digest.")
        }
        return (bytes, digest)
    }

    private static func syncDirectory(of path: String) throws(LedgerBackupError) {
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(directory, "opening") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw cannotWrite(directory, "fsync") }
    }

    private static func cannotWrite(_ path: String, _ what: String) -> LedgerBackupError {
        let reason =
            switch errno {
            case ENOENT: "its directory does not exist."
            case EACCES, EPERM: "permission denied."
            case EROFS: "its file system is read-only."
            case ENOSPC, EDQUOT: "its file system is full."
            default: "\(what) failed with error number \(errno)."
            }
        return .cannotWrite(path: path, reason: reason)
    }
}
