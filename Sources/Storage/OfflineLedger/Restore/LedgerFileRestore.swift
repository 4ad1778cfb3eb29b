public import AuditChain
import Crypto
import DatabaseKit
public import Foundation
import GRDB
import Glibc
public import Ledger
import PostgreSQLLedger
import SQLiteFiles
import SQLiteLedger

// Unsafe: The system calls use their paths only until they return.

/// Puts a copy made by ``SQLiteLedger/backup(to:)`` in place of a stopped daemon's ledger.
///
/// The copy is itself copied first, so that exactly the verified file is put in place. Verification requires that
/// SQLite finds it intact and that it is a ledger with this schema or an older one. Its chain must be complete, with
/// every audit checkpoint signed by one of its own keys. No key's row may permit more than the key's last recorded
/// state change allows. The previous ledger is set aside with its side files (``LedgerFileExchange``). The file is then
/// marked as restored, and releases nothing until that is accepted (``AdministrativeChange/Restore``). Open requests
/// for a second person expire.
///
/// Data outside the records is only as trustworthy as the copy: claims, cut-offs, and records after its last audit
/// checkpoint. Any account that can write to the copy can forge these. Its SHA-256, which `ledger_backup` records,
/// covers all of it.
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
        /// The number of records after the last audit checkpoint, which no key has signed.
        public let unsealed: Int
        /// The last record's sequence; 0 if there is none.
        public let lastRecord: Int
        public let claims: Int
        /// The time of the newest release in the copy.
        public let newestRelease: Date?
        /// The schema version of the copy; the restored ledger has this program's version.
        public let copySchema: Int
        /// SHA-256 of the copy, without its log.
        public let digest: AuditDigest
        /// The previous ledger's path; nil if there was none.
        public internal(set) var setAside: String?
    }

    /// - Parameters:
    ///   - copy: the copy, read to its end.
    ///   - log: SQLite's log of the copy (`-wal`), if the copy was in use when it was set aside.
    ///   - copyName: the copy's name for messages.
    ///   - expected: the required SHA-256 of the copy; nil accepts any.
    ///   - path: the ledger's absolute path.
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

    /// Restores the copy. It blocks and is durable when it returns. If it throws, either the previous ledger is still
    /// in place, or a link in its place shows that a restore was interrupted. The next restore continues from there.
    ///
    /// - Parameter changes: if false, verifies everything and changes nothing.
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
        // Remove the file of an interrupted restore. It is not a concurrent restore's, since the lock excludes one.
        Self.remove(partial)
        defer { Self.remove(partial) }
        let digest = try fill(partial, from: copy)
        if let expected, digest != expected {
            throw .broken(copy: copyName, fault: "Its SHA-256 is \(digest.hex), not the expected one.")
        }
        if let log {
            guard expected == nil else {
                throw .broken(
                    copy: copyName,
                    fault: "It has a log file, which would change it and which the SHA-256 does not cover. "
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
                // Expire open requests: they can no longer be approved or used.
                try db.run(
                    "UPDATE approval SET expires_at = min(expires_at, $1) WHERE status IN ('pending', 'approved')",
                    [.time(now)])
                // Remove remaining archived records, since nothing here verifies them.
                if let node = AuditNode(report.node) { _ = try db.removeArchivedRecords(of: node, limit: .max) }
            }
        } catch {
            throw .brokenOff(reason: "The file cannot be marked as restored: \(LedgerFailure(error).description)")
        }
        report.setAside = try exchange.carryOut()
        return report
    }

    /// - Returns: SHA-256 of the bytes read.
    private func fill(
        _ partial: String, from source: FileHandle
    ) throws(LedgerFileRestoreError) -> AuditDigest {
        let descriptor = unsafe open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .failed("\(partial) cannot be created") }
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

    /// Verifies the copied file. An older copy's tables are first upgraded, by the same steps as an older ledger's. Its
    /// records do not change and are then verified.
    private func verify(_ partial: String, digest: AuditDigest) throws(LedgerFileRestoreError) -> Report {
        do {
            let schema = try change(partial) { db in
                let found = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
                guard found == "ok" else {
                    throw LedgerFileRestoreError.broken(copy: copyName, fault: "SQLite finds it damaged.")
                }
                let version = try SQLiteSchema(path: copyName, node: nil).bringUpToDate(db)
                guard try SQLiteTables.match(db) else {
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
                    copy: copyName, fault: "Its key \(key) may do more than its records allow: the copy was changed.")
            }
            guard try file.read({ db in try SQLiteTimes.areValid(db) }) else {
                throw LedgerFileRestoreError.broken(
                    copy: copyName, fault: "A claim has an invalid time.")
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
        } catch let error as DatabaseError where error.isTransient {
            throw .brokenOff(reason: LedgerFailure(error).description)
        } catch {
            throw .broken(
                copy: copyName,
                fault: "It is damaged or was not copied completely: \(LedgerFailure(error).description)")
        }
    }

    private func refusal(of error: LedgerOpeningError) -> LedgerFileRestoreError {
        switch error {
        case .notALedger: .broken(copy: copyName, fault: "It is not a ledger of paytokend.")
        case .moveUnfinished, .moved: .broken(copy: copyName, fault: "It was moved into a database.")
        case .cannotOpen(_, let reason):
            .broken(copy: copyName, fault: "It is damaged or was not copied completely: \(reason)")
        default: .file(error)
        }
    }

    /// Changes the file itself, without a log, so that it stays a single file.
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

/// The reason why the ledger was not replaced by a copy.
public enum LedgerFileRestoreError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The ledger's file is in use, not private, or belongs to another account.
    case file(LedgerOpeningError)
    /// The copy is damaged, not a ledger, or its chain is incomplete.
    case broken(copy: String, fault: String)
    /// A failing disk, a missing permission or a full file system interrupted the restore. The next restore continues
    /// where this one stopped.
    case brokenOff(reason: String)

    public var description: String {
        switch self {
        case .file(let error): error.description
        case .broken(let copy, let fault): "\(copy) was not restored, and nothing was changed. \(fault)"
        case .brokenOff(let reason):
            "The restore was interrupted: \(reason) The former ledger is in its place, or next to it as ….before-restore-…; in the "
                + "second case the daemon does not start. Repeat the restore."
        }
    }
}
