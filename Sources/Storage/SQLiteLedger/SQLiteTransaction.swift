package import AuditChain
import DatabaseKit
import Foundation
import GRDB
import Ledger

/// The reads and writes of administrative work in SQLite, as part of a batch's transaction.
final class SQLiteTransaction: LedgerTransaction {
    let db: Database
    /// The end of the chain, including the records that this transaction has appended.
    private(set) var head: ChainHead
    /// The widest of this node's signing-time windows; nil while any of them is off.
    private let widestWindow: Duration?
    private var times: SQLiteTimes { SQLiteTimes(node: node.name) }

    init(_ db: Database, _ head: ChainHead, widestWindow: Duration?) {
        self.db = db
        self.head = head
        self.widestWindow = widestWindow
    }

    var node: AuditNode { head.node }
    /// A single connection writes, so no row needs a lock.
    static let rowLock = ""

    @discardableResult
    func run(_ sql: String, _ values: [StoredValue]) throws -> [any StoredRow] { try db.run(sql, values) }

    func append(_ record: AuditRecord) throws -> AuditLine { try db.append(record, to: &head) }

    func forgetApprovals(expiredBefore time: Date, keeping count: Int) throws -> Int {
        let ended = "status IN ('done', 'rejected', 'withdrawn', 'expired')"
        try run("DELETE FROM approval WHERE \(ended) AND expires_at < $1", [.time(time)])
        let old = db.changesCount
        try run(
            """
            DELETE FROM approval WHERE identifier IN (SELECT identifier FROM approval WHERE \(ended)
                ORDER BY requested_at DESC, identifier DESC LIMIT -1 OFFSET $1)
            """, [.integer(max(count, 0))])
        return old + db.changesCount
    }

    func removeArchivedRecords(limit: Int) throws -> Int {
        try db.removeArchivedRecords(of: node, limit: limit)
    }

    func store(_ archive: RecordArchive, recordedAs sequence: Int) throws {
        try run(
            "INSERT INTO archive (node, first, last, hash, digest, size, recorded) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [
                .text(node.name), .integer(archive.first), .integer(archive.last), .bytes(archive.hash.bytes),
                .bytes(archive.digest.bytes), .integer(archive.size), .integer(sequence),
            ])
    }

    func earliestServedFrom() -> Int64? { nil }

    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int) throws {
        try times.accept(change, at: sequence, db)
    }

    func restoreFence(acceptedAt now: Date, newestRelease: Date?) throws -> Int64 {
        guard let widestWindow else { throw LedgerFailure.windowOff(nodes: [node.name]) }
        return ReleaseLimits.fence(acceptedAt: now, newestRelease: newestRelease, widestWindow: widestWindow)
    }

    func carryOut(_ restore: AdministrativeChange.Restore, fence: Int64?, recordedAs sequence: Int) throws {
        if let fence { try times.advance(restoreFence: fence, db) }
        try SQLiteRestoreMark.remove(db)
    }
}

extension Database {
    /// - Returns: the number of removed records.
    package func removeArchivedRecords(of node: AuditNode, limit: Int) throws -> Int {
        guard let base = try RecordStatements(node: node).lastArchive(self)?.last else { return 0 }
        try run(
            """
            DELETE FROM audit_record WHERE node = $1 AND sequence IN
                (SELECT sequence FROM audit_record WHERE node = $1 AND sequence < $2 ORDER BY sequence LIMIT $3)
            """, [.text(node.name), .integer(base), .integer(limit)])
        let removed = changesCount
        try run(
            """
            DELETE FROM checkpoint WHERE node = $1
                AND sequence < (SELECT min(sequence) FROM audit_record WHERE node = $1)
            """, [.text(node.name)])
        return removed
    }
}
