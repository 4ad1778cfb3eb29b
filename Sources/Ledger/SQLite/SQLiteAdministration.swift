import AccessControl
public import AuditChain
public import Foundation
import GRDB
import KeyTypes
import MerchantKeys
import PaymentToken
import SQLiteFiles

/// What administrative work reads and writes in SQLite.
struct SQLiteTransaction: LedgerTransaction {
    let chain: SQLiteChain
    let db: Database
    private(set) var head: ChainHead
    /// Of this node's signing-time windows; nil while one is off.
    var widestWindow: Duration?

    var node: AuditNode { chain.node }
    private var keys: SQLiteKeyRecords { SQLiteKeyRecords(node: node.name) }
    private var approvals: SQLiteApprovals { SQLiteApprovals(node: node.name) }
    private var auditKeys: SQLiteAuditKeys { SQLiteAuditKeys(chain: chain) }
    private var checkpoints: SQLiteCheckpoints { SQLiteCheckpoints(chain: chain) }
    private var archives: SQLiteArchives { SQLiteArchives(node: node) }

    /// Runs a part of a batch's transaction, and moves the chain's head when it succeeds.
    static func run<Answer>(
        _ chain: SQLiteChain, _ head: inout ChainHead, _ db: Database, widestWindow: Duration? = nil,
        _ body: (inout SQLiteTransaction) throws -> Answer
    ) throws -> Answer {
        var transaction = SQLiteTransaction(chain: chain, db: db, head: head, widestWindow: widestWindow)
        let answer = try body(&transaction)
        head = transaction.head
        return answer
    }

    mutating func append(_ record: AuditRecord) throws -> AuditLine { try chain.append(record, to: &head, db) }

    func keyRecord(_ hash: PublicKeyHash) throws -> KeyRecord? { try keys.find(hash, db) }
    func keyRecords() throws -> [KeyRecord] { try keys.all(db) }
    func put(_ key: KeyRecord) throws { try keys.put(key, db) }
    func activeKeys(of merchant: String, _ use: KeyUse) throws -> Int { try keys.activeCount(of: merchant, use, db) }

    func approval(_ identifier: ApprovalIdentifier) throws -> Approval? { try approvals.find(identifier, db) }
    func openApprovals(of uid: UInt32, at now: Date) throws -> Int { try approvals.openCount(of: uid, at: now, db) }
    func overdueApprovals(at now: Date) throws -> [Approval] { try approvals.overdue(now: now, db) }
    func insert(_ approval: Approval) throws { try approvals.insert(approval, db) }
    func mark(_ identifier: ApprovalIdentifier, _ status: Approval.Status) throws {
        try approvals.mark(identifier, status, db)
    }
    func decide(
        _ identifier: ApprovalIdentifier, _ status: Approval.Status, by person: PersonIdentities, at now: Date
    ) throws {
        try approvals.decide(identifier, status, by: person, at: now, db)
    }

    func auditKey(_ identifier: [UInt8]) throws -> StoredAuditKey? { try auditKeys.find(identifier, db) }
    func insertAuditKey(_ identifier: [UInt8], at now: Date) throws { try auditKeys.insert(identifier, at: now, db) }
    func setPublicKey(_ publicKey: [UInt8], of identifier: [UInt8]) throws {
        try auditKeys.setPublicKey(publicKey, of: identifier, db)
    }

    func storedHash(of sequence: Int) throws -> AuditDigest? { try chain.hash(of: sequence, db) }
    func store(_ checkpoint: SignedCheckpoint) throws { try checkpoints.insert(checkpoint, db) }
    func hasCheckpoint(of sequence: Int) throws -> Bool { try checkpoints.exists(sequence, db) }

    func lastArchivedRecord() throws -> Int { try archives.lastRecord(db) }
    func store(_ archive: RecordArchive, recordedAs sequence: Int) throws {
        try archives.insert(archive, recordedAs: sequence, db)
    }

    func earliestServed() -> Int64? { nil }

    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int) throws {
        try SQLiteTimes(node: node.name).accept(change, at: sequence, db)
    }

    func restoreFence(acceptedAt now: Date, newestRelease: Date?) throws -> Int64 {
        guard let widestWindow else { throw LedgerFailure.windowOff(nodes: [node.name]) }
        return ReleaseLimits.fence(acceptedAt: now, newestRelease: newestRelease, widestWindow: widestWindow)
    }

    func carryOut(_ restore: AdministrativeChange.Restore, fence: Int64?, recordedAs sequence: Int) throws {
        if let fence { try SQLiteTimes(node: node.name).raise(restoreFence: fence, db) }
        try SQLiteRestoreMark.remove(db)
    }
}

extension AdministrativeChange {
    /// What was written, if it stands after a commit that was not acknowledged. Its records stand or fall with it.
    func stands(_ lines: [AuditLine], _ chain: SQLiteChain, _ db: Database) throws -> [AuditLine]? {
        if let last = lines.last { return try chain.holds(last, db) ? lines : nil }
        guard let key, let stored = try SQLiteKeyRecords(node: chain.node.name).find(key.publicKeyHash, db),
            stored.state == key.state,
            stored.cutOff.map(StoredTime.milliseconds) == key.cutOff.map(StoredTime.milliseconds)
        else { return nil }
        return lines
    }
}

/// The key records' statements.
struct SQLiteKeyRecords {
    let node: String

    func all(_ db: Database) throws -> [KeyRecord] {
        try Row.fetchAll(db, sql: "SELECT \(Self.columns) FROM merchant_key ORDER BY public_key_hash").map(read)
    }

    func find(_ hash: PublicKeyHash, _ db: Database) throws -> KeyRecord? {
        try Row.fetchOne(
            db, sql: "SELECT \(Self.columns) FROM merchant_key WHERE public_key_hash = ?",
            arguments: [hash.bytes.blob]
        ).map(read)
    }

    func put(_ key: KeyRecord, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO merchant_key (\(Self.columns), node) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (public_key_hash) DO UPDATE SET state = excluded.state, cut_off = excluded.cut_off
                """,
            arguments: [
                key.publicKeyHash.bytes.blob, key.merchantIdentifier, key.algorithm.name, key.state.rawValue,
                key.cutOff.map(StoredTime.milliseconds), key.origin.rawValue, StoredTime.milliseconds(key.createdAt),
                key.use.name, node,
            ])
    }

    func activeCount(of merchant: String, _ use: KeyUse, _ db: Database) throws -> Int {
        try Int.fetchOne(
            db,
            sql:
                "SELECT count(*) FROM merchant_key WHERE merchant_identifier = ? AND key_use = ? AND state = 'active'",
            arguments: [merchant, use.name]) ?? 0
    }

    /// What decides whether a key may be used now; nil when there is no record of it.
    static func standing(_ hash: PublicKeyHash, _ db: Database, _ reads: TransactionReads) throws -> KeyStanding? {
        try reads.key(hash) {
            try db.firstRow(
                "SELECT state, cut_off, key_use FROM merchant_key WHERE public_key_hash = ?", .blob(hash.bytes)
            ) { row in
                guard let state = row.text(0).flatMap(KeyState.init), let use = row.text(2).flatMap(KeyUse.init(name:))
                else { return nil }
                return KeyStanding(use: use, state: state, cutOff: row.integer(1).map(StoredTime.date))
            } ?? nil
        }
    }

    private static let columns =
        "public_key_hash, merchant_identifier, algorithm, state, cut_off, origin, created_at, key_use"

    private func read(_ row: Row) throws -> KeyRecord {
        let hash: Data = try row.value("public_key_hash")
        let cutOff: Int64? = try row.value("cut_off")
        guard let publicKeyHash = PublicKeyHash(bytes: hash),
            let algorithm = KeyAlgorithm(name: try row.value("algorithm")),
            let state = KeyState(rawValue: try row.value("state")),
            let origin = KeyRecord.Origin(rawValue: try row.value("origin")),
            let use = KeyUse(name: try row.value("key_use"))
        else {
            throw LedgerFailure.unavailable(reason: "A key's record holds a value that this version does not know.")
        }
        return KeyRecord(
            publicKeyHash: publicKeyHash, merchantIdentifier: try row.value("merchant_identifier"),
            algorithm: algorithm, use: use,
            state: state, cutOff: cutOff.map(StoredTime.date), createdAt: StoredTime.date(try row.value("created_at")),
            origin: origin)
    }
}

extension SQLiteLedger {
    @discardableResult
    public func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        try await writer.write(
            { [chain, nodeFacts] db, head in
                try SQLiteTransaction.run(chain, &head, db, widestWindow: nodeFacts.widestWindow) {
                    try $0.perform(change)
                }
            },
            readBack: { [chain] lines, db in try change.stands(lines, chain, db) }
        ).map(\.sequence)
    }

    public func approvals(limit: Int) async throws(LedgerFailure) -> [Approval] {
        try await read { [approvalRows] db in try approvalRows.all(limit: limit, db) }
    }

    public func approval(_ identifier: ApprovalIdentifier) async throws(LedgerFailure) -> Approval? {
        try await read { [approvalRows] db in try approvalRows.find(identifier, db) }
    }

    public func expireApprovals(now: Date) async throws(LedgerFailure) -> Int {
        var total = 0
        // A look first: mostly there is nothing to write.
        while try await !read({ [approvalRows] db in try approvalRows.overdue(now: now, db) }).isEmpty {
            total += try await expireOverdue(now: now)
        }
        return total
    }

    private func expireOverdue(now: Date) async throws(LedgerFailure) -> Int {
        try await writer.write(
            { [chain] db, head in
                try SQLiteTransaction.run(chain, &head, db) { try $0.expireApprovals(at: now) }
            },
            // Done or not: the next look finds what is left.
            readBack: { _, _ in nil })
    }

    public func forgetApprovals(expiredBefore time: Date, keeping count: Int) async throws(LedgerFailure) -> Int {
        let surplus = try await read { [approvalRows] db in
            try approvalRows.surplus(expiredBefore: time, keeping: count, db)
        }
        guard surplus > 0 else { return 0 }
        return try await writer.write(
            { [approvalRows] db, _ in try approvalRows.forget(expiredBefore: time, keeping: count, db) },
            readBack: { _, _ in nil })
    }

    private var approvalRows: SQLiteApprovals { SQLiteApprovals(node: node) }
}
