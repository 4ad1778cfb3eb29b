import AuditChain
import Crypto
import Foundation
import GRDB
import Glibc

/// Copies of the ledger's file, made by SQLite's backup interface: one consistent state, with what is still in the
/// write-ahead log, while others read and write.
enum SQLiteBackup {
    /// Copies a ledger that is in use; blocks.
    static func copy(
        of source: LedgerPlace, busyTimeout: TimeInterval, node: String, to path: String
    ) -> Result<LedgerBackup, LedgerBackupError> {
        Result { () throws(LedgerBackupError) in
            do {
                let connection = try SQLiteConnections.reading(
                    source.path, label: "ledger.backup", busyTimeout: busyTimeout)
                defer { try? connection.close() }
                return try connection.read { db in
                    // Now that it is open: not of another file than the one in use.
                    try source.requireUnchanged()
                    return try copy(db, node: node, to: path)
                }
            } catch let error as LedgerBackupError {
                throw error
            } catch {
                throw .unavailable(reason: LedgerFailure(error).description)
            }
        }
    }

    /// Blocks. The copy appears under its name when it is whole and has reached the disk, and not before.
    static func copy(_ source: Database, node: String, to path: String) throws(LedgerBackupError) -> LedgerBackup {
        guard path.hasPrefix("/") else { throw .notAbsolute(path: path) }
        guard !exists(path) else { throw .exists(path: path) }
        let partial = path + ".partial"
        try makePrivate(partial)
        defer { unsafe unlink(partial) }
        let sequence: Int
        do {
            sequence = try fill(partial, from: source, node: node)
        } catch let error as DatabaseError
            where [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN].contains(error.resultCode)
        {
            throw .cannotWrite(path: path, reason: "SQLite says \(error.extendedResultCode).")
        } catch {
            throw .unavailable(reason: LedgerFailure(error).description)
        }
        let (bytes, digest) = try finish(partial)
        // Unlike a renaming, a link replaces nothing that has come there meanwhile.
        guard unsafe link(partial, path) == 0 else {
            throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "linking")
        }
        try syncDirectory(of: path)
        return LedgerBackup(path: path, bytes: bytes, digest: digest, sequence: sequence)
    }

    private static func fill(_ path: String, from source: Database, node: String) throws -> Int {
        var configuration = Configuration()
        configuration.qos = SQLiteConnections.threadQuality
        configuration.prepareDatabase { db in
            // A copy that is not finished is not kept, and a finished one is synced below.
            try db.execute(sql: "PRAGMA journal_mode = OFF")
            try db.execute(sql: "PRAGMA synchronous = OFF")
        }
        let copy = try DatabaseQueue(path: path, configuration: configuration)
        let sequence = try copy.writeWithoutTransaction { db -> Int in
            try source.backup(to: db)
            // One file that is complete by itself; the ledger makes it WAL again when it is opened.
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            guard try db.tableExists("audit_record") else { return 0 }
            return try Int.fetchOne(
                db, sql: "SELECT max(sequence) FROM audit_record WHERE node = ?", arguments: [node]) ?? 0
        }
        try copy.close()
        return sequence
    }

    private static func exists(_ path: String) -> Bool {
        var status = stat()
        return unsafe lstat(path, &status) == 0
    }

    private static func makePrivate(_ path: String) throws(LedgerBackupError) {
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw errno == EEXIST ? .exists(path: path) : cannotWrite(path, "opening") }
        close(descriptor)
    }

    /// Syncs the file and hashes it.
    private static func finish(_ path: String) throws(LedgerBackupError) -> (Int, AuditDigest) {
        let descriptor = unsafe open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { throw cannotWrite(path, "opening") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard fsync(descriptor) == 0 else { throw cannotWrite(path, "fsync") }
        var hash = SHA256()
        var bytes = 0
        do {
            while let chunk = try file.read(upToCount: 1 << 20), !chunk.isEmpty {
                hash.update(data: chunk)
                bytes += chunk.count
            }
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
