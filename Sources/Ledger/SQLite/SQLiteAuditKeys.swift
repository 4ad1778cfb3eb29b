import AuditChain
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
