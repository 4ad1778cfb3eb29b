public import AuditChain
import Foundation
import GRDB

/// The audit keys' statements.
struct SQLiteAuditKeys {
    let chain: SQLiteChain
    private var node: String { chain.node.name }

    init(chain: SQLiteChain) {
        self.chain = chain
    }

    func all(_ db: Database) throws -> [StoredAuditKey] {
        try Row.fetchAll(
            db.cachedStatement(sql: "SELECT identifier, public_key FROM audit_key WHERE node = ? ORDER BY ordinal"),
            arguments: [node]
        ).map(read)
    }

    func find(_ identifier: [UInt8], _ db: Database) throws -> StoredAuditKey? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: "SELECT identifier, public_key FROM audit_key WHERE node = ? AND identifier = ?"),
            arguments: [node, identifier.blob]
        ).map(read)
    }

    func plan(_ identifier: [UInt8], at now: Date, _ db: Database) throws {
        guard identifier.count == 16 else { throw LedgerFailure.auditKeyConflict }
        guard try find(identifier, db) == nil else { return }
        try db.execute(
            sql: """
                INSERT INTO audit_key (node, ordinal, identifier, planned_at)
                VALUES (?, (SELECT coalesce(max(ordinal), 0) + 1 FROM audit_key WHERE node = ?), ?, ?)
                """,
            arguments: [node, node, identifier.blob, StoredTime.milliseconds(now)])
    }

    /// - Returns: the record's line; nil without one, and when the key is confirmed already.
    func confirm(
        _ identifier: [UInt8], _ publicKey: [UInt8], recording record: AuditRecord?, _ head: inout ChainHead,
        _ db: Database
    ) throws -> AuditLine? {
        guard CheckpointKey(point: publicKey) != nil, let known = try find(identifier, db) else {
            throw LedgerFailure.auditKeyConflict
        }
        if let confirmed = known.publicKey {
            guard confirmed == publicKey else { throw LedgerFailure.auditKeyConflict }
            return nil
        }
        try db.execute(
            sql: "UPDATE audit_key SET public_key = ? WHERE node = ? AND identifier = ?",
            arguments: [publicKey.blob, node, identifier.blob])
        return try record.map { try chain.append($0, to: &head, db) }
    }

    private func read(_ row: Row) throws -> StoredAuditKey {
        let publicKey: Data? = try row.value("public_key")
        return StoredAuditKey(
            identifier: Array(try row.value("identifier") as Data), publicKey: publicKey.map { Array($0) })
    }
}

extension SQLiteLedger {
    public func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey] {
        try await read { [auditKeyRows] db in try auditKeyRows.all(db) }
    }

    public func planAuditKey(identifier: [UInt8]) async throws(LedgerFailure) {
        try await writer.write(
            { [auditKeyRows] db, _ in try auditKeyRows.plan(identifier, at: Date(), db) },
            readBack: { [auditKeyRows] _, db in try auditKeyRows.find(identifier, db) == nil ? nil : () })
    }

    @discardableResult
    public func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        try await writer.write(
            { [auditKeyRows] db, head in
                try auditKeyRows.confirm(identifier, publicKey, recording: record, &head, db)
            },
            readBack: { [auditKeyRows, chain] line, db in
                guard try auditKeyRows.find(identifier, db)?.publicKey == publicKey else { return nil }
                if let line, try !chain.holds(line, db) { return nil }
                return .some(line)
            })?.sequence
    }

    private var auditKeyRows: SQLiteAuditKeys { SQLiteAuditKeys(chain: chain) }
}
