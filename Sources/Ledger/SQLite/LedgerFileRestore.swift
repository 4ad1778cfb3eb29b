import AuditChain
import Crypto
public import Foundation
import GRDB
import Glibc
import SQLiteFiles

/// Puts a copy of a ledger, as ``SQLiteLedger/backup(to:)`` makes it, in the place of a stopped daemon's ledger.
///
/// The copy is copied first, and what is verified is what is put in place: that it is whole for SQLite, a ledger of this schema, and
/// that its record follows from its first line to its last, with every checkpoint signed by a key of its own. The former ledger
/// is moved aside with its side files. The file then says that it was restored, and nothing is released from it before that is
/// accepted (``AdministrativeChange/Restore``).
public struct LedgerFileRestore: Sendable {
    private let copy: FileHandle
    private let copyName: String
    private let path: String
    private let now: Date

    public struct Report: Sendable, Equatable {
        public let path: String
        public let node: String
        public let records: Int
        public let claims: Int
        /// Of the newest release that the copy knows.
        public let newestRelease: Date?
        /// Where the former ledger is; nil where there was none.
        public let setAside: String?
    }

    /// - Parameters:
    ///   - copy: is read to its end.
    ///   - copyName: for messages.
    ///   - path: of the ledger, absolute.
    public init(copy: FileHandle, named copyName: String, to path: String, now: Date = Date()) {
        self.copy = copy
        self.copyName = copyName
        self.path = path
        self.now = now
    }

    /// Blocks. Durable when it returns; when it throws, the former ledger is where it was, or aside.
    ///
    /// - Parameter changes: false: all is verified, and nothing is put in place.
    public func carryOut(changes: Bool = true) throws(LedgerFileRestoreError) -> Report {
        let isNew = !Self.exists(path)
        let lock: DatabaseFileLock
        do throws(DatabaseFileError) {
            lock = try PrivateDatabaseFile(path: path).prepare()
        } catch {
            throw .file(LedgerOpeningError(error))
        }
        defer { lock.release() }
        // The lock's taking has made an empty one.
        if isNew { unsafe unlink(path) }
        let partial = path + ".restoring"
        // What an interrupted restore has left: nobody else makes one while the lock is held.
        Self.remove(partial)
        defer { Self.remove(partial) }
        try fill(partial)
        let (node, counts, newest, end) = try verify(partial)
        guard changes else {
            return Report(
                path: path, node: node, records: counts.records, claims: counts.claims, newestRelease: newest,
                setAside: nil)
        }
        do {
            try mark(partial, SQLiteRestoreMark(restoredAt: StoredTime.milliseconds(now), end: end))
        } catch {
            throw .brokenOff(reason: "The restore cannot be noted: \(LedgerFailure(error).description)")
        }
        let aside = try setAside()
        // Unlike a renaming, a link replaces nothing that has come there meanwhile.
        guard unsafe link(partial, path) == 0 else { throw Self.brokenOff("\(path) cannot be made") }
        try syncDirectory()
        return Report(
            path: path, node: node, records: counts.records, claims: counts.claims, newestRelease: newest,
            setAside: aside)
    }

    private func fill(_ partial: String) throws(LedgerFileRestoreError) {
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.brokenOff("\(partial) cannot be made") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            while let part = try copy.read(upToCount: 1 << 20), !part.isEmpty { try file.write(contentsOf: part) }
            try file.synchronize()
        } catch {
            throw .brokenOff(reason: "\(copyName) cannot be read, or \(partial) cannot be written.")
        }
    }

    private func verify(
        _ partial: String
    ) throws(LedgerFileRestoreError) -> (node: String, counts: (records: Int, claims: Int), newest: Date?, end: Int) {
        do {
            let file = try MovedFile(path: partial)
            guard file.mark == nil else {
                throw LedgerFileRestoreError.broken(copy: copyName, fault: "It was moved into a database.")
            }
            let found = try file.read { db in try String.fetchOne(db, sql: "PRAGMA integrity_check(1)") }
            guard found == "ok" else {
                throw LedgerFileRestoreError.broken(copy: copyName, fault: "SQLite finds it damaged.")
            }
            try file.verify(page: 500) { _ in }
            let (records, _, claims) = try file.counts()
            let node = file.node.name
            let newest = try file.read { db in try SQLiteTimes(node: node).newestRelease(db) }
            return (node, (records, claims), newest.map(StoredTime.date), try file.head().sequence)
        } catch let error as LedgerFileRestoreError {
            throw error
        } catch let error as LedgerMoveError {
            throw switch error {
            case .file(.notALedger): .broken(copy: copyName, fault: "It is not a ledger of paytokend.")
            case .file(.cannotOpen(_, let reason)):
                .broken(copy: copyName, fault: "It is damaged, or was not copied whole: \(reason)")
            case .file(.newerSchema(_, let found, let known)):
                .file(.newerSchema(path: copyName, found: found, known: known))
            case .file(let reason): .file(reason)
            case .olderFile(_, let found, let known): .olderCopy(copy: copyName, found: found, known: known)
            case .brokenChain(_, let fault): .broken(copy: copyName, fault: fault)
            default: .broken(copy: copyName, fault: error.description)
            }
        } catch {
            throw .broken(copy: copyName, fault: LedgerFailure(error).description)
        }
    }

    /// In the file itself, which stays one file: without a log beside it.
    private func mark(_ partial: String, _ mark: SQLiteRestoreMark) throws {
        var configuration = Configuration()
        configuration.qos = DurableSQLite.threadQuality
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
        }
        let queue = try DatabaseQueue(path: partial, configuration: configuration)
        try queue.write { db in try mark.write(db) }
        try queue.close()
    }

    /// - Returns: its new name; nil when there was none.
    private func setAside() throws(LedgerFileRestoreError) -> String? {
        let aside = "\(path).before-restore-\(AuditTime(now).fileNameText)"
        guard Self.sideFiles.allSatisfy({ !Self.exists(aside + $0) }) else {
            throw .brokenOff(reason: "\(aside) is there already, and is not overwritten.")
        }
        for suffix in Self.sideFiles where Self.exists(path + suffix) {
            guard unsafe rename(path + suffix, aside + suffix) == 0 else {
                throw Self.brokenOff("\(path + suffix) cannot be moved aside")
            }
        }
        return Self.exists(aside) ? aside : nil
    }

    private static let sideFiles = ["", "-wal", "-shm"]

    private static func remove(_ partial: String) {
        for suffix in ["", "-journal", "-wal", "-shm", ".lock"] { _ = unsafe unlink(partial + suffix) }
    }

    private static func exists(_ path: String) -> Bool {
        var status = stat()
        return unsafe lstat(path, &status) == 0
    }

    private func syncDirectory() throws(LedgerFileRestoreError) {
        let directory = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        let descriptor = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.brokenOff("\(directory) cannot be opened") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw Self.brokenOff("\(directory) cannot be synced") }
    }

    private static func brokenOff(_ what: String) -> LedgerFileRestoreError {
        .brokenOff(reason: "\(what): \(unsafe String(cString: strerror(errno))).")
    }
}

/// Why a copy was not put in the ledger's place.
public enum LedgerFileRestoreError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The ledger's place: in use, not private, or of another account.
    case file(LedgerOpeningError)
    /// The copy is damaged, no ledger, or its record is not whole.
    case broken(copy: String, fault: String)
    /// The copy was made by an older program.
    case olderCopy(copy: String, found: Int, known: Int)
    case brokenOff(reason: String)

    public var description: String {
        switch self {
        case .file(let error): error.description
        case .broken(let copy, let fault): "\(copy) was not restored, and nothing was changed. \(fault)"
        case .olderCopy(let copy, let found, let known):
            "\(copy) has schema \(found), and only schema \(known) is verified and restored by this version. Restore it with the "
                + "version that made it, and upgrade then. Nothing was changed."
        case .brokenOff(let reason):
            "The restore broke off: \(reason) A former ledger is where it was, or beside that as ….before-restore-…."
        }
    }
}
