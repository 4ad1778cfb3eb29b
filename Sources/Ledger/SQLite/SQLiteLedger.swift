public import AuditChain
import Dispatch
public import Foundation
import GRDB
public import MerchantKeys
public import PaymentToken
import Synchronization

/// The ledger in one SQLite file, for one host.
///
/// Writes that come together share one commit, in WAL mode with `synchronous = FULL`: each has reached the disk when it
/// is answered.
/// One process uses the file at a time; a lock beside it (`.lock`) sees to that.
public final class SQLiteLedger: Ledger {
    public let node: String
    public let path: String
    public let engine = "sqlite"
    public let schemaVersion = SQLiteTables.version

    let connections: SQLiteConnections
    let writer: SQLiteWriter
    /// Nil once it is closed.
    private let lock: Mutex<LedgerLock?>
    private let busyTimeout: TimeInterval
    let place: LedgerPlace
    let claims: SQLiteClaims
    let keys: SQLiteKeyRecords
    let chain: SQLiteChain

    public struct Settings: Sendable, Equatable {
        /// Absolute; the directory must exist and be writable for nobody else.
        public var path: String
        /// nil takes the host name when the ledger is new, and what it recorded from then on.
        public var node: String?
        /// How long after its release a transaction can be had again by its reference; zero: never.
        public var repeatFor: Duration
        /// How long a call waits for a lock that some other program holds on the file (a backup, a shell).
        public var busyTimeout: Duration
        /// How many writes may wait for the writer; more are refused as `overloaded`.
        public var waiting: Int

        public init(
            path: String, node: String? = nil, repeatFor: Duration = .seconds(86_400),
            busyTimeout: Duration = .seconds(2), waiting: Int = 1024
        ) {
            self.path = path
            self.node = node
            self.repeatFor = repeatFor
            self.busyTimeout = busyTimeout
            self.waiting = waiting
        }
    }

    /// Opens the ledger, making it when there is none and bringing an older one up to date.
    ///
    /// - Parameter observe: is told of every batch, on the writer's thread; it must not block.
    public static func open(
        _ settings: Settings, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws(LedgerOpeningError) -> SQLiteLedger {
        try await open(settings, faults: SQLiteFaults(), observe: observe)
    }

    static func open(
        _ settings: Settings, faults: SQLiteFaults, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws(LedgerOpeningError) -> SQLiteLedger {
        // Files and locks block; tasks' threads are not for that.
        try await withCheckedContinuation {
            (turn: CheckedContinuation<Result<SQLiteLedger, LedgerOpeningError>, Never>) in
            DispatchQueue.global().async {
                turn.resume(
                    returning: Result { () throws(LedgerOpeningError) in
                        try SQLiteLedger(blocking: settings, faults: faults, observe: observe)
                    })
            }
        }.get()
    }

    private init(
        blocking settings: Settings, faults: SQLiteFaults, observe: @escaping @Sendable (LedgerEvent) -> Void
    ) throws(LedgerOpeningError) {
        let path = settings.path
        if let node = settings.node, AuditNode(node) == nil { throw .nodeName(node) }
        let lock = try LedgerFile(path: path).prepare()
        let schema = SQLiteSchema(path: path, node: settings.node)
        var prepared: AuditNode?
        let timeout = Double(StoredTime.milliseconds(settings.busyTimeout)) / 1000
        let node: AuditNode
        do {
            connections = try SQLiteConnections(path: path, busyTimeout: timeout) { prepared = try schema.prepare($0) }
            guard let prepared else { throw LedgerOpeningError.notALedger(path: path) }
            node = prepared
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
        self.node = node.name
        self.path = path
        busyTimeout = timeout
        place = LedgerPlace(path: path)
        claims = SQLiteClaims(node: node.name, repeatFor: settings.repeatFor)
        keys = SQLiteKeyRecords(node: node.name)
        chain = SQLiteChain(node: node)
        writer = SQLiteWriter(
            connections: connections, place: place, chain: chain, capacity: settings.waiting, faults: faults,
            observe: observe)
    }

    public func release(
        _ release: Release, recording record: AuditRecord?
    ) async throws(LedgerFailure) -> JudgedRelease {
        let releases = SQLiteReleases(claims: claims, chain: chain)
        let decision = try await writer.write(
            { db, head in try releases.decide(release, recording: record, &head, db) },
            readBack: { decision, db in try releases.stands(decision, release, db) },
            refusal: { db in try releases.refusal(of: release, db) })
        return JudgedRelease(decision.verdict, sequence: decision.line?.sequence)
    }

    public func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Bool {
        try await read { [claims] db in try claims.wouldRepeat(release, db) }
    }

    public func keyRecords() async throws(LedgerFailure) -> [KeyRecord] {
        try await read { [keys] db in try keys.all(db) }
    }

    public func usage(since time: Date) async throws(LedgerFailure) -> [PublicKeyHash: KeyUsage] {
        try await search { [claims] db in try claims.usage(since: StoredTime.milliseconds(time), db) }
    }

    public func wasUsed(_ key: PublicKeyHash, since time: Date) async throws(LedgerFailure) -> Bool {
        try await search { [claims] db in try claims.wasUsed(key, since: StoredTime.milliseconds(time), db) }
    }

    public func keyRecord(_ hash: PublicKeyHash) async throws(LedgerFailure) -> KeyRecord? {
        try await read { [keys] db in try keys.find(hash, db) }
    }

    /// For reads that are short. What a file holds that is no longer in its place is no answer.
    func read<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws(LedgerFailure) -> T {
        try await connections.read { [place] db in
            try place.requireUnchanged()
            return try body(db)
        }
    }

    /// For reads that may take long; they wait for each other only.
    func search<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws(LedgerFailure) -> T {
        try await connections.search { [place] db in
            try place.requireUnchanged()
            return try body(db)
        }
    }

    public func probe() async throws(LedgerFailure) {
        let mark = String(StoredTime.milliseconds(Date()))
        try await writer.write(
            { db, _ in
                try db.cachedStatement(sql: "UPDATE ledger_meta SET value = ? WHERE name = 'probed'")
                    .execute(arguments: [mark])
            },
            // Whether the ledger can be written is what is asked.
            readBack: { _, _ in nil })
    }

    public func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> Int {
        let horizon = StoredTime.milliseconds(now) - StoredTime.milliseconds(retention.age)
        // A claim's token was signed at most one window after it was claimed, and the age is at least two of them.
        let signed = horizon + StoredTime.milliseconds(retention.age) / 2
        var total = 0
        while true {
            // In small steps, so that releases come between.
            let removed = try await writer.write(
                { [claims] db, _ in
                    let removed = try claims.prune(before: horizon, limit: 500, db)
                    if removed > 0 { try claims.forget(signedBefore: signed, db) }
                    return removed
                }, readBack: { _, _ in nil })
            total += removed
            if removed < 500 { return total }
        }
    }

    public func backup(to path: String) async throws(LedgerBackupError) -> LedgerBackup {
        // A connection of its own: a copy takes as long as the disk does.
        let (timeout, node) = (busyTimeout, node)
        return try await withCheckedContinuation {
            (turn: CheckedContinuation<Result<LedgerBackup, LedgerBackupError>, Never>) in
            DispatchQueue.global().async { [place] in
                turn.resume(
                    returning: SQLiteBackup.copy(of: place, busyTimeout: timeout, node: node, to: path))
            }
        }.get()
    }

    public func close() async {
        // The number of dropped notes is known to this process only.
        if writer.hasDropped { try? await probe() }
        writer.close()
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
