import AuditChain
import Crypto
import DatabaseKit
import Foundation
import GRDB
import Glibc
import Ledger
import SQLiteFiles

// Unsafe: The system calls use their paths only until they return.

/// Copies the ledger's file with SQLite's backup interface. The copy is one consistent state, including the write-ahead
/// log. Other connections can read and write while it is made.
///
/// A backup is marked as a copy (``SQLiteRestoreMark``). If the backup replaces a ledger by any means, the node
/// releases nothing until the restore is accepted, since the backup lacks later releases.
enum SQLiteBackup {
    /// The pages copied in one step, and the bytes written between two syncs.
    private static let (pagesInOneStep, unsyncedBytes): (CInt, Int) = (1024, 64 << 20)

    /// Copies a ledger that is in use; blocks.
    ///
    /// - Parameters:
    ///   - callerWaits: called after each step. It extends the caller's deadline and returns true, or returns false if
    ///     the caller no longer waits. False ends the copy.
    static func copy(
        of source: DatabaseFilePlace, busyTimeout: TimeInterval, node: String, to path: String, now: Date = Date(),
        callerWaits: @escaping () -> Bool
    ) -> Result<BackupFile, LedgerBackupError> {
        Result { () throws(LedgerBackupError) in
            do {
                let connection = try DurableSQLite.reading(
                    source.path, label: "ledger.backup", busyTimeout: busyTimeout)
                defer { try? connection.close() }
                return try connection.read { db in
                    // Check after opening. Otherwise another file that replaced the ledger's could be copied.
                    try source.requireUnchanged()
                    return try copy(db, node: node, to: path, markedAt: now, callerWaits: callerWaits)
                }
            } catch let error as LedgerBackupError {
                throw error
            } catch {
                throw .unavailable(reason: LedgerFailure(error).description)
            }
        }
    }

    /// Copies the ledger; blocks. The copy appears under its name only when it is complete and on disk.
    ///
    /// - Parameter now: the time of the copy, written into its mark.
    static func copy(
        _ source: Database, node: String, to path: String, markedAt now: Date,
        callerWaits: @escaping () -> Bool = { true }
    ) throws(LedgerBackupError) -> BackupFile {
        guard path.hasPrefix("/") else { throw .notAbsolute(path: path) }
        guard !LedgerPlace.exists(path) else { throw .exists(path: path) }
        let partial = path + ".partial"
        try makePrivate(partial)
        defer { unsafe unlink(partial) }
        let sequence: Int
        do {
            sequence = try fill(partial, from: source, node: node, markedAt: now, callerWaits: callerWaits)
        } catch let error as LedgerBackupError {
            throw error
        } catch let error as DatabaseError
            where [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(error.resultCode)
        {
            throw .cannotWrite(path: path, reason: "SQLite reports \(error.extendedResultCode).")
        } catch {
            throw .unavailable(reason: LedgerFailure(error).description)
        }
        let (bytes, digest) = try finish(partial, callerWaits: callerWaits)
        // Unlike a rename, a link does not replace a file that has appeared in the meantime.
        guard unsafe link(partial, path) == 0 else {
            throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "linking")
        }
        try syncDirectory(of: path)
        return BackupFile(path: path, bytes: bytes, digest: digest, sequence: sequence)
    }

    private static func fill(
        _ path: String, from source: Database, node: String, markedAt now: Date, callerWaits: @escaping () -> Bool
    ) throws -> Int {
        var configuration = Configuration()
        configuration.qos = DurableSQLite.threadQuality
        configuration.prepareDatabase { db in
            // The copy needs no journal: an unfinished copy is not kept, and a finished one is synced below.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
        }
        let copy = try DatabaseQueue(path: path, configuration: configuration)
        let sequence = try copy.writeWithoutTransaction { db -> Int in
            let page = try Int.fetchOne(source, sql: "PRAGMA page_size") ?? 4096
            var synced = 0
            // Copy and sync in steps: syncing a large copy only at its end would show no progress for a long time. The
            // source's transaction stays open, so that no write to the source restarts the copy.
            try source.backup(to: db, pagesPerStep: pagesInOneStep) { progress in
                let written = progress.completedPageCount * page
                if written - synced >= unsyncedBytes {
                    try sync(path)
                    synced = written
                }
                try requireWaitingCaller(callerWaits)
            }
            try requireWaitingCaller(callerWaits)
            // The copy is a single, complete file. It is switched back to WAL when it is opened as a ledger.
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            let sequence =
                try db.tableExists("audit_record")
                ? Int.fetchOne(db, sql: "SELECT max(sequence) FROM audit_record WHERE node = ?", arguments: [node]) ?? 0
                : 0
            // Keep the journal in memory, so that a full disk leaves no journal file.
            try db.execute(sql: "PRAGMA journal_mode = MEMORY")
            try SQLiteRestoreMark(restoredAt: StoredTime.milliseconds(now), end: sequence).write(db)
            return sequence
        }
        try copy.close()
        return sequence
    }

    /// Removes what a killed process left of a copy to this path.
    static func removeUnfinished(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { _ = unsafe unlink(path + ".partial" + suffix) }
    }

    private static func makePrivate(_ path: String) throws(LedgerBackupError) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "opening") }
        close(descriptor)
    }

    private static func requireWaitingCaller(_ callerWaits: () -> Bool) throws(LedgerBackupError) {
        guard callerWaits() else { throw .unavailable(reason: "the caller no longer waits for the copy.") }
    }

    private static func sync(_ path: String) throws(LedgerBackupError) {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(path, "opening") }
        defer { close(descriptor) }
        guard fdatasync(descriptor) == 0 else { throw cannotWrite(path, "fdatasync") }
    }

    /// Syncs the copy at the path, and returns its size in bytes and its SHA-256.
    private static func finish(_ path: String, callerWaits: () -> Bool) throws(LedgerBackupError) -> (Int, AuditDigest)
    {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(path, "opening") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard fsync(descriptor) == 0 else { throw cannotWrite(path, "fsync") }
        try requireWaitingCaller(callerWaits)
        var hash = SHA256()
        var bytes = 0
        do {
            while let chunk = try file.read(upToCount: 1 << 20), !chunk.isEmpty {
                hash.update(data: chunk)
                bytes += chunk.count
                try requireWaitingCaller(callerWaits)
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
