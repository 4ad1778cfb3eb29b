public import AuditChain
import Foundation
import GRDB
import SQLiteFiles

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

    func insert(_ identifier: [UInt8], at now: Date, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO audit_key (node, ordinal, identifier, planned_at)
                VALUES (?, (SELECT coalesce(max(ordinal), 0) + 1 FROM audit_key WHERE node = ?), ?, ?)
                """,
            arguments: [node, node, identifier.blob, StoredTime.milliseconds(now)])
    }

    func setPublicKey(_ publicKey: [UInt8], of identifier: [UInt8], _ db: Database) throws {
        try db.execute(
            sql: "UPDATE audit_key SET public_key = ? WHERE node = ? AND identifier = ?",
            arguments: [publicKey.blob, node, identifier.blob])
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
            { [chain] db, head in
                try SQLiteTransaction.run(chain, &head, db) { try $0.planAuditKey(identifier, at: Date()) }
            },
            readBack: { [auditKeyRows] _, db in try auditKeyRows.find(identifier, db) == nil ? nil : () })
    }

    @discardableResult
    public func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        try await writer.write(
            { [chain] db, head in
                try SQLiteTransaction.run(chain, &head, db) {
                    try $0.confirmAuditKey(identifier, publicKey, recording: record)
                }
            },
            readBack: { [auditKeyRows, chain] line, db in
                guard try auditKeyRows.find(identifier, db)?.publicKey == publicKey else { return nil }
                if let line, try !chain.holds(line, db) { return nil }
                return .some(line)
            })?.sequence
    }

    private var auditKeyRows: SQLiteAuditKeys { SQLiteAuditKeys(chain: chain) }
}
