public import AuditChain
public import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import WorkerProtocol

/// An administrative change inside the batch's transaction: the approval's step, the key's record and the records of
/// both together.
struct SQLiteAdministration: Sendable {
    let keys: SQLiteKeyRecords
    let chain: SQLiteChain
    let change: AdministrativeChange

    private var approvals: SQLiteApprovals { SQLiteApprovals(node: chain.node.name) }

    func perform(_ head: inout ChainHead, _ db: Database) throws -> [AuditLine] {
        let known = try change.key.flatMap { try keys.find($0.publicKeyHash, db) }
        if let step = change.approval {
            try approvals.take(step, at: change.at, state: { try keys.find($0, db)?.state }, db)
        }
        if let key = change.key { try put(key, over: known, change.precondition, db) }
        var lines = try change.records.map { try append($0, before: known, &head, db) }
        for further in change.furtherKeys {
            let known = try keys.find(further.key.publicKeyHash, db)
            try put(further.key, over: known, further.precondition, db)
            lines.append(try append(further.record, before: known, &head, db))
        }
        if let auditKey = change.auditKey, let publicKey = auditKey.publicKey {
            _ = try SQLiteAuditKeys(chain: chain).confirm(auditKey.identifier, publicKey, recording: nil, &head, db)
        }
        if let clock = change.clock, let line = lines.last {
            try SQLiteTimes(node: chain.node.name).accept(clock, at: line.sequence, db)
        }
        return lines
    }

    private func put(_ key: KeyRecord, over known: KeyRecord?, _ precondition: KeyPrecondition, _ db: Database) throws {
        switch precondition {
        case .any: break
        case .absent:
            guard known == nil else { throw KeyRecordConflict.changedMeanwhile }
        case .state(let before):
            guard known?.state == before else { throw KeyRecordConflict.changedMeanwhile }
        }
        try keys.put(try key.replacing(known), db)
    }

    private func append(
        _ record: AuditRecord, before known: KeyRecord?, _ head: inout ChainHead, _ db: Database
    ) throws -> AuditLine {
        var record = record
        if case .keyStateChange(var stateChange) = record.event {
            // What the state really was, not what the caller saw a moment ago.
            stateChange.from = known.flatMap { AuditKeyState(rawValue: $0.state.rawValue) }
            record.event = .keyStateChange(stateChange)
        }
        return try chain.append(record, to: &head, db)
    }

    /// What was written, if it stands after a commit that was not acknowledged. Its records stand or fall with it.
    @Sendable func stands(_ lines: [AuditLine], _ db: Database) throws -> [AuditLine]? {
        if let last = lines.last { return try chain.holds(last, db) ? lines : nil }
        guard let key = change.key, let stored = try keys.find(key.publicKeyHash, db), stored.state == key.state,
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
                INSERT INTO merchant_key (\(Self.columns), node) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (public_key_hash) DO UPDATE SET state = excluded.state, cut_off = excluded.cut_off
                """,
            arguments: [
                key.publicKeyHash.bytes.blob, key.merchantIdentifier, key.algorithm.name, key.state.rawValue,
                key.cutOff.map(StoredTime.milliseconds), key.origin.rawValue, StoredTime.milliseconds(key.createdAt),
                node,
            ])
    }

    private static let columns =
        "public_key_hash, merchant_identifier, algorithm, state, cut_off, origin, created_at"

    private func read(_ row: Row) throws -> KeyRecord {
        let hash: Data = try row.value("public_key_hash")
        let cutOff: Int64? = try row.value("cut_off")
        guard let publicKeyHash = PublicKeyHash(bytes: hash),
            let algorithm = KeyAlgorithm(name: try row.value("algorithm")),
            let state = KeyState(rawValue: try row.value("state")),
            let origin = KeyRecord.Origin(rawValue: try row.value("origin"))
        else {
            throw LedgerFailure.unavailable(reason: "A key's record holds a value that this version does not know.")
        }
        return KeyRecord(
            publicKeyHash: publicKeyHash, merchantIdentifier: try row.value("merchant_identifier"),
            algorithm: algorithm,
            state: state, cutOff: cutOff.map(StoredTime.date), createdAt: StoredTime.date(try row.value("created_at")),
            origin: origin)
    }
}

extension SQLiteLedger {
    @discardableResult
    public func apply(_ change: AdministrativeChange) async throws(LedgerFailure) -> [Int] {
        let administration = SQLiteAdministration(keys: keys, chain: chain, change: change)
        return try await writer.write(
            { db, head in try administration.perform(&head, db) }, readBack: administration.stands
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
            { [approvalRows, chain] db, head in
                let overdue = try approvalRows.overdue(now: now, db)
                for approval in overdue {
                    try approvalRows.mark(approval.identifier, .expired, db)
                    let record = AuditRecord(
                        time: AuditTime(now),
                        event: .approvalDecision(approval: approval.identifier, decision: .expire, reason: nil),
                        outcome: .refused(.approvalInvalid),
                        publicKeyHash: approval.key.flatMap { AuditDigest(bytes: $0.bytes) })
                    _ = try chain.append(record, to: &head, db)
                }
                return overdue.count
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
