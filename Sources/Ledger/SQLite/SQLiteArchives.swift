public import AuditChain
import Foundation
import GRDB

/// The statements about archives of a node's record.
struct SQLiteArchives {
    let node: AuditNode

    /// The archive behind which the chain begins: the last one whose record a checkpoint seals.
    func last(_ db: Database) throws -> RecordArchive? { try newest("EXISTS", db) }

    /// The one whose record none seals yet.
    func unsealed(_ db: Database) throws -> RecordArchive? { try newest("NOT EXISTS", db) }

    private func newest(_ condition: String, _ db: Database) throws -> RecordArchive? {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT first, last, hash, digest, size FROM archive AS a
                    WHERE a.node = ? AND \(condition)
                        (SELECT 1 FROM checkpoint AS c WHERE c.node = a.node AND c.sequence >= a.recorded)
                    ORDER BY last DESC LIMIT 1
                    """), arguments: [node.name]
        ).map(Self.archive)
    }

    /// All of them, sealed or not, with the sequences of their records; the oldest first.
    func all(_ db: Database) throws -> [(archive: RecordArchive, recorded: Int64)] {
        try Row.fetchAll(
            db, sql: "SELECT first, last, hash, digest, size, recorded FROM archive WHERE node = ? ORDER BY last",
            arguments: [node.name]
        ).map { (try Self.archive($0), try $0.value("recorded")) }
    }

    func lastRecord(_ db: Database) throws -> Int {
        try Int.fetchOne(
            db.cachedStatement(sql: "SELECT max(last) FROM archive WHERE node = ?"), arguments: [node.name]) ?? 0
    }

    func insert(_ archive: RecordArchive, recordedAs sequence: Int, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO archive (node, first, last, hash, digest, size, recorded) VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                node.name, archive.first, archive.last, archive.hash.bytes.blob, archive.digest.bytes.blob,
                archive.size,
                sequence,
            ])
    }

    /// - Returns: how many records were removed.
    func remove(limit: Int, _ db: Database) throws -> Int {
        guard let base = try last(db)?.last else { return 0 }
        try db.cachedStatement(
            sql: """
                DELETE FROM audit_record WHERE node = ?1 AND sequence IN
                    (SELECT sequence FROM audit_record WHERE node = ?1 AND sequence < ?2 ORDER BY sequence LIMIT ?3)
                """
        ).execute(arguments: [node.name, base, limit])
        let removed = db.changesCount
        try db.cachedStatement(
            sql: """
                DELETE FROM checkpoint WHERE node = ?1
                    AND sequence < (SELECT min(sequence) FROM audit_record WHERE node = ?1)
                """
        ).execute(arguments: [node.name])
        return removed
    }

    private static func archive(_ row: Row) throws -> RecordArchive {
        guard
            let archive = RecordArchive(
                first: try row.value("first"), last: try row.value("last"), hash: try row.digest("hash"),
                digest: try row.digest("digest"), size: try row.value("size"))
        else { throw LedgerFailure.unavailable(reason: "An archive of the record has impossible sequences.") }
        return archive
    }
}

extension SQLiteLedger {
    public func lastArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await read { [archives] db in try archives.last(db) }
    }

    public func unsealedArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await read { [archives] db in try archives.unsealed(db) }
    }

    public func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int {
        // Done or not: the next call finds what is left.
        try await writer.write(
            { [archives] db, _ in try archives.remove(limit: limit, db) }, readBack: { _, _ in nil })
    }

    private var archives: SQLiteArchives { SQLiteArchives(node: chain.node) }
}
