public import AuditChain
import Crypto
import DatabaseKit
public import Foundation
import GRDB
import Glibc
import SQLiteFiles

/// Puts a copy of a ledger, as ``SQLiteLedger/backup(to:)`` makes it, in the place of a stopped daemon's ledger.
///
/// The copy is copied first, and what is verified is what is put in place: that it is whole for SQLite, a ledger of this schema or
/// an older one, that its record follows from its first line to its last, with every checkpoint signed by a key of its own, and that
/// no key may do more than its last recorded change of state left it. The former ledger is set aside with its side files
/// (``LedgerFileExchange``). The file then says that it was restored, and nothing is released from it before that is accepted
/// (``AdministrativeChange/Restore``). Requests for a second person that were open end.
///
/// What stands in no record is only as true as the copy: claims, cut-offs, and the records behind its last checkpoint, which
/// whoever can write to the copy can make. Its SHA-256, which `ledger_backup` records, vouches for all of it.
public struct LedgerFileRestore: Sendable {
    private let copy: FileHandle
    private let log: FileHandle?
    private let expected: AuditDigest?
    private let copyName: String
    private let path: String
    private let now: Date

    public struct Report: Sendable, Equatable {
        public let path: String
        public let node: String
        public let records: Int
        /// How many of them stand behind the last checkpoint: nobody has signed them.
        public let unsealed: Int
        /// Its sequence; 0 for none.
        public let lastRecord: Int
        public let claims: Int
        /// Of the newest release that the copy knows.
        public let newestRelease: Date?
        /// The schema's version in the copy; the ledger has this program's.
        public let copySchema: Int
        /// SHA-256 of the copy, without its log.
        public let digest: AuditDigest
        /// Where the former ledger is; nil where there was none.
        public internal(set) var setAside: String?
    }

    /// - Parameters:
    ///   - copy: is read to its end.
    ///   - log: SQLite's own of the copy (`-wal`), where that was in use when it was set aside.
    ///   - copyName: for messages.
    ///   - expected: SHA-256 that the copy has to have; nil for any.
    ///   - path: of the ledger, absolute.
    public init(
        copy: FileHandle, log: FileHandle? = nil, named copyName: String, expected: AuditDigest? = nil, to path: String,
        now: Date = Date()
    ) {
        self.copy = copy
        self.log = log
        self.expected = expected
        self.copyName = copyName
        self.path = path
        self.now = now
    }

    /// Blocks. Durable when it returns. When it throws, the former ledger is where it was, or what stands in its place says that a
    /// restore broke off, and the next one goes on there.
    ///
    /// - Parameter changes: false: all is verified, and nothing is put in place.
    public func carryOut(changes: Bool = true) throws(LedgerFileRestoreError) -> Report {
        let lock: DatabaseFileLock
        do throws(DatabaseFileError) {
            lock = try PrivateDatabaseFile(path: path).lock()
        } catch {
            throw .file(LedgerOpeningError(error))
        }
        defer { lock.release() }
        let partial = path + ".restoring"
        let exchange = try LedgerFileExchange(
            path: path, restored: partial, aside: path + LedgerFileExchange.asideMark + AuditTime(now).fileNameText)
        // What an interrupted restore has left: nobody else makes one while the lock is held.
        Self.remove(partial)
        defer { Self.remove(partial) }
        let digest = try fill(partial, from: copy)
        if let expected, digest != expected {
            throw .broken(copy: copyName, fault: "Its SHA-256 is \(digest.hex), and not the one that was given.")
        }
        if let log {
            guard expected == nil else {
                throw .broken(
                    copy: copyName,
                    fault: "A log lies beside it, which would change it, and which the SHA-256 does not cover. "
                        + "A backup has none.")
            }
            _ = try fill(partial + "-wal", from: log)
        }
        var report = try verify(partial, digest: digest)
        guard changes else { return report }
        do {
            let mark = SQLiteRestoreMark(restoredAt: StoredTime.milliseconds(now), end: report.lastRecord)
            try change(partial) { db in
                try mark.write(db)
                // What is open: none of it can be approved or used any more.
                try db.run(
                    "UPDATE approval SET expires_at = min(expires_at, $1) WHERE status IN ('pending', 'approved')",
                    [.time(now)])
                // What is left of archived records, which nothing here verifies.
                if let node = AuditNode(report.node) { _ = try db.removeArchivedRecords(of: node, limit: .max) }
            }
        } catch {
            throw .brokenOff(reason: "The restore cannot be noted: \(LedgerFailure(error).description)")
        }
        report.setAside = try exchange.carryOut()
        return report
    }

    /// - Returns: SHA-256 of what was read.
    private func fill(
        _ partial: String, from source: FileHandle
    ) throws(LedgerFileRestoreError) -> AuditDigest {
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("\(partial) cannot be made") }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        do {
            var hash = SHA256()
            while let part = try source.read(upToCount: 1 << 20), !part.isEmpty {
                hash.update(data: part)
                try file.write(contentsOf: part)
            }
            try file.synchronize()
            if let digest = AuditDigest(bytes: Array(hash.finalize())) { return digest }
        } catch {}
        throw .brokenOff(reason: "\(copyName) cannot be read, or \(partial) cannot be written.")
    }

    /// An older copy's tables are brought up to date, in its own copy, by the same steps as an older ledger's; its record is as it
    /// was, and is verified then.
    private func verify(_ partial: String, digest: AuditDigest) throws(LedgerFileRestoreError) -> Report {
        do {
            let schema = try change(partial) { db in
                let found = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
                guard found == "ok" else {
                    throw LedgerFileRestoreError.broken(copy: copyName, fault: "SQLite finds it damaged.")
                }
                let version = try SQLiteSchema(path: copyName, node: nil).bringUpToDate(db)
                guard try SQLiteTables.areThese(db) else {
                    throw LedgerFileRestoreError.broken(
                        copy: copyName, fault: "Its tables, indexes or triggers are not those of a ledger.")
                }
                return version
            }
            let file = try MovedFile(path: partial)
            var states = RecordedKeyStates()
            let unsealed = try file.verify(page: 500, reading: { states.take($0) })
            if let key = states.contradicted(by: try file.keys()) {
                throw LedgerFileRestoreError.broken(
                    copy: copyName, fault: "Its key \(key) may do more than its record says: the copy was changed.")
            }
            guard try file.read({ db in try SQLiteTimes.areTimes(db) }) else {
                throw LedgerFileRestoreError.broken(
                    copy: copyName, fault: "A released transaction has no possible time.")
            }
            let (records, _, claims) = try file.counts()
            let node = file.node.name
            let newest = try file.read { db in try RecordStatements(node: file.node).newestRelease(db) }
            return Report(
                path: path, node: node, records: records, unsealed: unsealed, lastRecord: try file.head().sequence,
                claims: claims, newestRelease: newest, copySchema: schema, digest: digest,
                setAside: nil)
        } catch let error as LedgerFileRestoreError {
            throw error
        } catch let error as LedgerOpeningError {
            throw refusal(of: error)
        } catch LedgerMoveError.file(let error) {
            throw refusal(of: error)
        } catch LedgerMoveError.brokenChain(_, let fault) {
            throw .broken(copy: copyName, fault: fault)
        } catch let error as LedgerMoveError {
            throw .broken(copy: copyName, fault: error.description)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
            throw refusal(of: .notALedger(path: copyName))
        } catch let error as DatabaseError where error.isPassing {
            throw .brokenOff(reason: LedgerFailure(error).description)
        } catch {
            throw .broken(
                copy: copyName,
                fault: "It is damaged, or was not copied whole: \(LedgerFailure(error).description)")
        }
    }

    private func refusal(of error: LedgerOpeningError) -> LedgerFileRestoreError {
        switch error {
        case .notALedger: .broken(copy: copyName, fault: "It is not a ledger of paytokend.")
        case .moving, .moved: .broken(copy: copyName, fault: "It was moved into a database.")
        case .cannotOpen(_, let reason):
            .broken(copy: copyName, fault: "It is damaged, or was not copied whole: \(reason)")
        default: .file(error)
        }
    }

    /// In the file itself, which stays one file: without a log beside it.
    private func change<Value>(_ partial: String, _ body: (Database) throws -> Value) throws -> Value {
        var configuration = Configuration()
        configuration.qos = DurableSQLite.threadQuality
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA trusted_schema = OFF")
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            try db.execute(sql: "PRAGMA synchronous = FULL")
        }
        let queue = try DatabaseQueue(path: partial, configuration: configuration)
        let value = try queue.write(body)
        try queue.close()
        return value
    }

    private static func remove(_ partial: String) {
        for suffix in ["", "-journal", "-wal", "-shm", ".lock"] { _ = unsafe unlink(partial + suffix) }
    }
}

/// Why a copy was not put in the ledger's place.
public enum LedgerFileRestoreError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The ledger's place: in use, not private, or of another account.
    case file(LedgerOpeningError)
    /// The copy is damaged, no ledger, or its record is not whole.
    case broken(copy: String, fault: String)
    /// By a failing disk, a missing right or a full file system: the next restore goes on where this one ended.
    case brokenOff(reason: String)

    public var description: String {
        switch self {
        case .file(let error): error.description
        case .broken(let copy, let fault): "\(copy) was not restored, and nothing was changed. \(fault)"
        case .brokenOff(let reason):
            "The restore broke off: \(reason) The former ledger is where it was, or beside that as ….before-restore-…, and a daemon "
                + "does not start then. Repeat the restore."
        }
    }
}
