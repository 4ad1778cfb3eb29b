public import AuditChain
import MerchantKeys
import PostgreSQLClient

/// What is read of archives of a node's record.
struct PostgreSQLArchives {
    let node: AuditNode

    /// The archive behind which the chain begins: the last one whose record a checkpoint seals.
    func last(_ queries: PostgreSQLReader.Queries) throws -> RecordArchive? { try newest("EXISTS", queries) }

    /// The one whose record none seals yet.
    func unsealed(_ queries: PostgreSQLReader.Queries) throws -> RecordArchive? { try newest("NOT EXISTS", queries) }

    private func newest(_ condition: String, _ queries: PostgreSQLReader.Queries) throws -> RecordArchive? {
        try queries.rows(
            """
            SELECT first, last, hash, digest, size FROM archive AS a
            WHERE a.node = $1 AND \(condition)
                (SELECT FROM checkpoint AS c WHERE c.node = a.node AND c.sequence >= a.recorded)
            ORDER BY last DESC LIMIT 1
            """, [.text(node.name)]
        ).first.map { row in
            guard
                let archive = RecordArchive(
                    first: Int(try row.integer(0)), last: Int(try row.integer(1)), hash: try row.digest(2),
                    digest: try row.digest(3), size: Int(try row.integer(4)))
            else { throw LedgerFailure.unavailable(reason: "An archive of the record has impossible sequences.") }
            return archive
        }
    }
}

extension PostgreSQLChain {
    func lastArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await ledger.read { [records] in try PostgreSQLArchives(node: records.node).last($0) }
    }
}

extension PostgreSQLLedger {
    public func unsealedArchive() async throws(LedgerFailure) -> RecordArchive? {
        try await read { [records] in try PostgreSQLArchives(node: records.node).unsealed($0) }
    }

    public func removeArchivedRecords(limit: Int) async throws(LedgerFailure) -> Int {
        try await writer.administer { transaction in
            let removed = try transaction.run(
                "SELECT remove_archived($1, $2, $3)",
                [.text(transaction.node.name), .integer(transaction.fencingNumber), .integer(Int64(limit))])
            return Int(try removed.rows.first?.integer(0) ?? 0)
        }
    }
}

extension PostgreSQLTransaction {
    func keyRecords() throws -> [KeyRecord] {
        try run("SELECT \(KeyRecordRow.columns) FROM merchant_key ORDER BY public_key_hash").rows.map(KeyRecordRow.read)
    }

    func hasCheckpoint(of sequence: Int) throws -> Bool {
        try !run(
            "SELECT sequence FROM checkpoint WHERE node = $1 AND sequence = $2",
            [.text(node.name), .integer(Int64(sequence))]
        ).rows.isEmpty
    }

    func lastArchivedRecord() throws -> Int {
        let last = try run("SELECT coalesce(max(last), 0) FROM archive WHERE node = $1", [.text(node.name)]).rows.first
        return Int(try last?.integer(0) ?? 0)
    }

    func store(_ archive: RecordArchive, recordedAs sequence: Int) throws {
        finish(
            with: PostgreSQLStatement(
                "SELECT put_archive($1, $2, $3, $4, $5, $6, $7, $8)",
                [
                    .text(node.name), .integer(fencingNumber), .integer(Int64(archive.first)),
                    .integer(Int64(archive.last)), .bytes(archive.hash.bytes), .bytes(archive.digest.bytes),
                    .integer(Int64(archive.size)), .integer(Int64(sequence)),
                ]), orElse: .archive(.unsealed))
    }
}
