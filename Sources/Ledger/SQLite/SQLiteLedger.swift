import Dispatch
public import Foundation
import GRDB
public import MerchantKeys
import Synchronization

/// The ledger in one SQLite file, for one host.
///
/// Every release is one commit in WAL mode with `synchronous = FULL`, so it has reached the disk when it is answered.
/// One process uses the file at a time; a lock beside it (`.lock`) sees to that.
public final class SQLiteLedger: Ledger {
    public let node: String
    public let path: String
    public let engine = "sqlite"
    public let schemaVersion = SQLiteSchema.version

    let connections: SQLiteConnections
    /// Nil once it is closed.
    private let lock: Mutex<LedgerLock?>
    private let claims: SQLiteClaims
    private let keys: SQLiteKeyRecords
    private let faults: SQLiteFaults
    private let place: LedgerPlace

    public struct Settings: Sendable, Equatable {
        /// Absolute; the directory must exist and be writable for nobody else.
        public var path: String
        /// nil takes the host name when the ledger is new, and what it recorded from then on.
        public var node: String?
        /// How long after its release a transaction can be had again by its reference; zero: never.
        public var repeatFor: Duration
        /// How long a call waits for a lock that some other program holds on the file (a backup, a shell).
        public var busyTimeout: Duration

        public init(
            path: String, node: String? = nil, repeatFor: Duration = .seconds(86_400),
            busyTimeout: Duration = .seconds(2)
        ) {
            self.path = path
            self.node = node
            self.repeatFor = repeatFor
            self.busyTimeout = busyTimeout
        }
    }

    /// Opens the ledger, making it when there is none.
    public static func open(_ settings: Settings) async throws(LedgerOpeningError) -> SQLiteLedger {
        try await open(settings, faults: SQLiteFaults())
    }

    static func open(_ settings: Settings, faults: SQLiteFaults) async throws(LedgerOpeningError) -> SQLiteLedger {
        // Files and locks block; tasks' threads are not for that.
        try await withCheckedContinuation {
            (turn: CheckedContinuation<Result<SQLiteLedger, LedgerOpeningError>, Never>) in
            DispatchQueue.global().async {
                turn.resume(
                    returning: Result { () throws(LedgerOpeningError) in
                        try SQLiteLedger(blocking: settings, faults: faults)
                    })
            }
        }.get()
    }

    private init(blocking settings: Settings, faults: SQLiteFaults) throws(LedgerOpeningError) {
        let path = settings.path
        if let node = settings.node, !NodeName.isValid(node) { throw .nodeName(node) }
        let lock = try LedgerFile(path: path).prepare()
        var node = ""
        do {
            let timeout = Double(StoredTime.milliseconds(settings.busyTimeout)) / 1000
            connections = try SQLiteConnections(path: path, busyTimeout: timeout) { db in
                node = try SQLiteSchema.prepare(db, path: path, node: settings.node, hostName: HostName.current)
            }
        } catch let error as LedgerOpeningError {
            lock.release()
            throw error
        } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
            lock.release()
            throw .notALedger(path: path)
        } catch let error as DatabaseError where error.isPassing {
            lock.release()
            throw .notNow(path: path, reason: LedgerFailure(error).description)
        } catch {
            lock.release()
            throw .cannotOpen(path: path, reason: LedgerFailure(error).description)
        }
        self.lock = Mutex(lock)
        self.node = node
        self.path = path
        self.faults = faults
        place = LedgerPlace(path: path)
        claims = SQLiteClaims(node: node, repeatFor: settings.repeatFor)
        keys = SQLiteKeyRecords(node: node)
    }

    public func release(_ release: Release) async throws(LedgerFailure) -> ReleaseVerdict {
        try await writeInPlace { [claims, faults] db in
            var decided: ReleaseVerdict?
            do {
                let verdict = try db.durably {
                    let verdict = try claims.decide(release, db)
                    decided = verdict
                    try faults.insideTransaction()
                    return verdict
                }
                try faults.afterCommit()
                return verdict
            } catch {
                // Whether the commit took place is in the database, and nowhere else.
                try db.leaveTransaction()
                guard let decided, try claims.stands(decided, release, db) else { throw error }
                return decided
            }
        }
    }

    public func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Bool {
        try await connections.read { [claims] db in try claims.wouldRepeat(release, db) }
    }

    public func keyRecords() async throws(LedgerFailure) -> [KeyRecord] {
        try await connections.read { [keys] db in try keys.all(db) }
    }

    public func record(_ key: KeyRecord) async throws(LedgerFailure) {
        try await writeInPlace { [keys, faults] db in
            var intended: KeyRecord?
            do {
                try db.durably {
                    let next = try key.replacing(try keys.find(key.publicKeyHash, db))
                    intended = next
                    try keys.put(next, db)
                }
                try faults.afterCommit()
            } catch {
                try db.leaveTransaction()
                guard let intended, let stored = try keys.find(intended.publicKeyHash, db),
                    (stored.state, stored.cutOff.map(StoredTime.milliseconds))
                        == (intended.state, intended.cutOff.map(StoredTime.milliseconds))
                else { throw error }
            }
        }
    }

    public func probe() async throws(LedgerFailure) {
        try await writeInPlace { db in
            try db.durably {
                try db.execute(
                    sql: "UPDATE ledger_meta SET value = ? WHERE name = 'probed'",
                    arguments: [String(StoredTime.milliseconds(Date()))])
            }
        }
    }

    public func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> Int {
        let horizon = StoredTime.milliseconds(now) - StoredTime.milliseconds(retention.age)
        var total = 0
        while true {
            // In small transactions, so that releases come between.
            let removed = try await writeInPlace { [claims] db in
                try db.durably { try claims.prune(before: horizon, limit: 500, db) }
            }
            total += removed
            if removed < 500 { return total }
        }
    }

    /// Writes, and answers only for what is in the file that stands at the ledger's path.
    private func writeInPlace<T: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws(LedgerFailure) -> T {
        try await connections.write { [place] db in
            try place.requireUnchanged()
            let result = try body(db)
            // Once more: the file may have gone between the look and the commit.
            try place.requireUnchanged()
            return result
        }
    }

    public func close() async {
        let held = lock.withLock { lock in
            defer { lock = nil }
            return lock
        }
        guard let held else { return }
        await withCheckedContinuation { (turn: CheckedContinuation<Void, Never>) in
            DispatchQueue.global().async { [connections] in
                // A connection that will not close is closed by the process's end; the lock must not outlive it here.
                try? connections.close()
                held.release()
                turn.resume()
            }
        }
    }
}

extension DatabaseError {
    /// Room on the disk, or a lock let go, mends it without anybody changing the configuration.
    fileprivate var isPassing: Bool {
        [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_READONLY].contains(resultCode)
    }
}
