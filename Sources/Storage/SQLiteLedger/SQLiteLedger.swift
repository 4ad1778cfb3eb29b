public import AuditChain
package import DatabaseKit
import Dispatch
public import Foundation
import GRDB
public import Ledger
import Locks
public import PaymentToken
import SQLiteFiles

/// The ledger in one SQLite file, for one host.
///
/// Concurrent writes share one commit, in WAL mode with `synchronous = FULL`: each write is on disk before it is
/// answered. The lock file next to the ledger's file (`.lock`) lets only one process use the ledger at a time.
public final class SQLiteLedger: SingleNodeLedger, StoredLedger {
    public let node: String
    public let path: String
    public let engine = "sqlite"
    public let schemaVersion = SQLiteTables.version

    public let nodeState = SingleNodeState()
    package let connections: SQLiteConnections
    let writer: SQLiteLedgerWriter
    public let releasesUnderWay = ReleasesUnderWay()
    /// The file's lock; nil once the ledger is closed.
    private let lock: Mutex<DatabaseFileLock?>
    private let busyTimeout: TimeInterval
    let deadlines: LedgerDeadlines
    /// True while a backup is being made, including one that has timed out but whose thread has not returned.
    private let isCopying = Mutex(false)
    /// True while a query for the disk's free space runs.
    let isMeasuring = Mutex(false)
    let place: DatabaseFilePlace
    package let repeatFor: Duration
    package let records: RecordStatements
    private let usedUp = UsedUpRepeats()
    package let claimFilter = ClaimFilter()
    let reads = TransactionReads()

    public struct Settings: Sendable, Equatable {
        /// The file's absolute path. The directory must exist and be writable only for the daemon's account.
        public var path: String
        /// The node's name. If nil, a new ledger takes the host name, and an existing ledger keeps its recorded name.
        public var node: String?
        /// The period after a transaction's release within which the same caller can receive the payment data again
        /// with the same reference; zero to permit no repeat.
        public var repeatFor: Duration
        /// The maximum wait for a lock that another program, such as a backup or a shell, has on the file.
        public var busyTimeout: Duration
        /// The maximum number of writes queued for the writer; further writes throw `overloaded`.
        public var waiting: Int
        /// The maximum duration of a call, after which it throws `timedOut`.
        public var timeout: Duration

        public init(
            path: String, node: String? = nil, repeatFor: Duration = .seconds(86_400),
            busyTimeout: Duration = .seconds(2), waiting: Int = 1024, timeout: Duration = .seconds(10)
        ) {
            self.path = path
            self.node = node
            self.repeatFor = repeatFor
            self.busyTimeout = busyTimeout
            self.waiting = waiting
            self.timeout = timeout
        }
    }

    /// Opens the ledger. A missing file is created, and a file with an older schema is upgraded. An upgrade may take
    /// any length of time; any other delay ends with `notNow` after ``Settings/timeout``.
    ///
    /// - Parameter observe: receives the ledger's events (``LedgerEvent``), on the writer's thread; it must not block.
    public static func open(
        _ settings: Settings, observe: @escaping @Sendable (LedgerEvent) -> Void = { _ in }
    ) async throws(LedgerOpeningError) -> SQLiteLedger {
        // Opening a file and waiting for a lock can block, so a separate thread does both instead of a task thread.
        let deadlines = LedgerDeadlines(timeout: settings.timeout)
        let opened: Result<SQLiteLedger, LedgerOpeningError>
        do throws(LedgerFailure) {
            opened = try await deadlines.answer {
                (caller: LedgerCall<Result<SQLiteLedger, LedgerOpeningError>>) in
                DispatchQueue.global().async {
                    let result = Result { () throws(LedgerOpeningError) in
                        try SQLiteLedger(
                            blocking: settings, deadlines: deadlines, beforeUpgrade: caller.removeDeadline,
                            observe: observe)
                    }
                    guard !caller.resume(.success(result)), case .success(let ledger) = result else { return }
                    // The caller has received `notNow` and no longer waits. No other code would close this ledger.
                    try? ledger.connections.close()
                    ledger.takeLock()?.release()
                }
            }
        } catch {
            throw .notNow(path: settings.path, reason: error.description)
        }
        let ledger = try opened.get()
        ledger.fillClaimFilter(observe)
        return ledger
    }

    /// Checks the path's directory and file as ``open(_:observe:)`` does, but creates nothing. A process that has the
    /// ledger open must not call this method, because the call would release SQLite's locks.
    public static func examine(path: String) throws(LedgerOpeningError) {
        do throws(DatabaseFileError) { try PrivateDatabaseFile(path: path).examine() } catch {
            throw LedgerOpeningError(error)
        }
    }

    private init(
        blocking settings: Settings, deadlines: LedgerDeadlines, beforeUpgrade: () -> Void,
        observe: @escaping @Sendable (LedgerEvent) -> Void
    ) throws(LedgerOpeningError) {
        let path = settings.path
        if let node = settings.node, AuditNode(node) == nil { throw .nodeName(node) }
        let lock: DatabaseFileLock
        do throws(DatabaseFileError) {
            lock = try PrivateDatabaseFile(path: path).prepare()
        } catch {
            if case .interruptedRestore(let aside) = LedgerPlace(of: path) {
                throw .restoreBrokenOff(path: path, aside: aside)
            }
            throw LedgerOpeningError(error)
        }
        let schema = SQLiteSchema(path: path, node: settings.node)
        var prepared: AuditNode?
        let busyTimeout = Double(StoredTime.milliseconds(settings.busyTimeout)) / 1000
        let node: AuditNode
        do {
            connections = try SQLiteConnections(path: path, busyTimeout: busyTimeout, deadlines: deadlines) {
                prepared = try schema.prepare($0, beforeUpgrade: beforeUpgrade)
            }
            guard let prepared else { throw LedgerOpeningError.notALedger(path: path) }
            node = prepared
        } catch {
            lock.release()
            throw switch error {
            case let error as LedgerOpeningError: error
            case let error as DatabaseFileError: LedgerOpeningError(error)
            case let error as DatabaseError where error.resultCode == .SQLITE_NOTADB: .notALedger(path: path)
            case let error as DatabaseError where error.isTransient:
                .notNow(path: path, reason: LedgerFailure(error).description)
            default: .cannotOpen(path: path, reason: LedgerFailure(error).description)
            }
        }
        self.lock = Mutex(lock)
        self.node = node.name
        self.path = path
        self.busyTimeout = busyTimeout
        self.deadlines = deadlines
        place = DatabaseFilePlace(path: path)
        repeatFor = settings.repeatFor
        records = RecordStatements(node: node)
        writer = SQLiteLedgerWriter(
            connections.writer, place: place,
            writes: CommitQueue(
                capacity: settings.waiting, deadlines: deadlines, moment: releasesUnderWay.worthWaiting(with:),
                counting: { [records] in
                    SQLiteWrite(recording: .dropped($0.count, since: $0.since), in: records, fail: $1)
                },
                observeDrop: { observe(.dropped(notes: 1)) }),
            LedgerBatches(records, reads, connections.checkpointing, observe: observe))
    }

    /// Makes a change to rows that ``TransactionReads`` may have cached, and clears that cache.
    private func change<Answer: Sendable>(
        _ work: @escaping @Sendable (Database, inout ChainHead) throws -> Answer,
        readBack: @escaping @Sendable (Answer, Database) throws -> Answer? = { _, _ in nil }
    ) async throws(LedgerFailure) -> Answer {
        try await writer.write(
            { [reads] db, head in
                defer { reads.forget() }
                return try work(db, &head)
            }, readBack: readBack)
    }

    private var uses: SQLiteUses { SQLiteUses(records: records, repeatFor: repeatFor, claimFilter: claimFilter) }

    public func wouldRepeat(_ release: Release) async throws(LedgerFailure) -> Repeatability {
        let mayBeClaimed = release.wallet == .applePay || isClosed || claimFilter.mayHave(release.transactionId)
        guard mayBeClaimed else { return .unclaimed }
        return try await read { [repeatFor] queries in
            try ClaimRow.find(release.transactionId, queries)?.repeatability(of: release, within: repeatFor)
                ?? .unclaimed
        }
    }

    public func release(
        _ release: Release, recording record: AuditRecord?
    ) async throws(LedgerFailure) -> RecordedVerdict {
        try release.requireNames()
        let uses = uses
        let decision = try await writer.write(
            { [reads] db, head in try uses.decide(release, recording: record, &head, db, reads) },
            readBack: { decision, db in try uses.committedDecision(decision, release, db) },
            refusal: { db in try uses.refusal(of: release, db) })
        if decision.isUsedUp { usedUp.insert(release.transactionId) }
        return RecordedVerdict(decision.verdict, sequence: decision.line?.sequence)
    }

    public func record(
        _ signature: SignatureUse, recording record: AuditRecord
    ) async throws(LedgerFailure) -> RecordedSignature {
        let uses = uses
        let decision = try await writer.write(
            { [reads] db, head in try uses.decide(signature, recording: record, &head, db, reads) },
            readBack: { decision, db in try uses.committedDecision(decision, db) },
            refusal: { db in try uses.refusal(of: signature, db) })
        return RecordedSignature(decision.verdict, sequence: decision.line?.sequence)
    }

    public func isUsedUp(_ transaction: TransactionIdentifier) -> Bool { usedUp.contains(transaction) }

    public func countRefusedRepeat(_ release: Release) async throws(LedgerFailure) {
        let isUsedUp = try await change { [uses] db, _ in try uses.countRefusedRepeat(release, db) }
        if isUsedUp { usedUp.insert(release.transactionId) }
    }

    public func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        try await writer.append(record, in: records)
    }

    public func note(_ record: AuditRecord) {
        writer.writes.note(start: writer.start) { SQLiteWrite(recording: record, in: records, fail: $0) }
    }

    package func administer<Answer: Sendable>(
        excludingReleases: Bool, _ work: @escaping @Sendable (any LedgerTransaction) throws -> Answer,
        readBack: @escaping @Sendable (Answer, any StoredQueries) throws -> Answer?
    ) async throws(LedgerFailure) -> Answer {
        try await change(
            { [nodeState] db, head in
                let transaction = SQLiteTransaction(db, head, widestWindow: nodeState.widestWindow)
                let answer = try work(transaction)
                head = transaction.head
                return answer
            }, readBack: readBack)
    }

    package func read<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T {
        try await connections.reader.read(fromUnmovedFile(body))
    }

    package func search<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T {
        try await connections.searcher.read(fromUnmovedFile(body))
    }

    /// Returns a read that throws if the file was replaced or moved, and otherwise runs `body`. Without this check, the
    /// open connection would continue to read the former file.
    private func fromUnmovedFile<T>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) -> @Sendable (Database) throws -> T {
        { [place] db in
            try place.requireUnchanged()
            return try body(db)
        }
    }

    public func probe() async throws(LedgerFailure) {
        let mark = String(StoredTime.milliseconds(Date()))
        // The probe only tests whether the ledger can be written. After a failed commit, nothing therefore needs to be
        // read back.
        try await change { db, _ in
            _ = try db.run("UPDATE ledger_meta SET value = $1 WHERE name = 'probed'", [.text(mark)])
        }
    }

    public func prune(_ retention: ClaimRetention, now: Date) async throws(LedgerFailure) -> ClaimPruningOutcome {
        let times = times
        // In a ledger with few claims of Apple Pay, the search for the newest may read all claims of a day.
        let plan = try await search { db in
            try retention.plan(
                now: now, oldestClaim: try db.number(ClaimRow.oldest), signedAhead: try times.signedAhead(db)
            ) { try db.number(ClaimRow.newestOfApplePay, [.integer($0)]) }
        }
        return try await plan.carryOut { horizon, signed, limit throws(LedgerFailure) in
            try await change { db, _ in
                try db.run(
                    """
                    DELETE FROM claim WHERE transaction_id IN
                        (SELECT transaction_id FROM claim WHERE claimed_at < $1 ORDER BY claimed_at LIMIT $2)
                    """, [.integer(horizon), .integer(limit)])
                let removed = db.changesCount
                if removed > 0 { try times.forget(signedBefore: signed, db) }
                return removed
            }
        }
    }

    public func times() async throws(LedgerFailure) -> LedgerTimes {
        try await read { [times] db in try times.times(db) }
    }

    private var times: SQLiteTimes { SQLiteTimes(node: node) }

    public func backup(to path: String) async throws(LedgerBackupError) -> BackupFile {
        guard
            isCopying.withLock({ isCopying in
                defer { isCopying = true }
                return !isCopying
            })
        else { throw .unavailable(reason: "another copy is already being made.") }
        let copied: Result<BackupFile, LedgerBackupError>
        do throws(LedgerFailure) {
            copied = try await deadlines.answer { (caller: LedgerCall<Result<BackupFile, LedgerBackupError>>) in
                // Copy on a separate connection and thread. Otherwise a copy to a slow disk would block the ledger's
                // own connections.
                DispatchQueue.global().async { [self] in
                    let result = SQLiteBackup.copy(
                        of: place, busyTimeout: busyTimeout, node: node, to: path, callerWaits: caller.extendDeadline)
                    isCopying.withLock { $0 = false }
                    caller.resume(.success(result))
                }
            }
        } catch {
            throw .unavailable(reason: error.description)
        }
        return try copied.get()
    }

    public func close() async {
        // Only this process knows how many records of `note(_:)` were dropped. The probe's commit stores their number
        // before the process ends.
        if writer.writes.hasDropped { try? await probe() }
        writer.writes.close()
        guard let held = takeLock() else { return }
        // If a connection hangs, the wait ends at the timeout. The end of the process then closes the connection and
        // releases the file's lock.
        try? await deadlines.answer { (caller: LedgerCall<Void>) in
            DispatchQueue.global().async { [connections] in
                // A connection that cannot be closed now is closed when the process ends. Release the lock in any case.
                try? connections.close()
                held.release()
                caller.resume(.success(()))
            }
        }
    }

    var isClosed: Bool { lock.withLock { $0 == nil } }

    private func takeLock() -> DatabaseFileLock? {
        lock.withLock { lock in
            defer { lock = nil }
            return lock
        }
    }
}

extension DatabaseError {
    /// True if the cause can disappear without a change of configuration: for example, disk space is freed, or another
    /// program releases its lock.
    package var isTransient: Bool {
        [.SQLITE_FULL, .SQLITE_IOERR, .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_READONLY].contains(resultCode)
    }
}

/// The table `ledger_meta`, whose names and values describe the ledger's file, such as its node and schema version.
package enum SQLiteLedgerMeta {
    package static func value(_ name: String, _ db: any StoredQueries) throws -> String? {
        try db.run("SELECT value FROM ledger_meta WHERE name = $1", [.text(name)]).first?.text(0)
    }

    static func put(_ name: String, _ value: String, _ db: any StoredQueries) throws {
        try db.run(
            """
            INSERT INTO ledger_meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
            """, [.text(name), .text(value)])
    }

    static func remove(_ names: [String], _ db: any StoredQueries) throws {
        for name in names { try db.run("DELETE FROM ledger_meta WHERE name = $1", [.text(name)]) }
    }
}
