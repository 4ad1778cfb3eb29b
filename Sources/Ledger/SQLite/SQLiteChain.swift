import AuditChain
import Foundation
import GRDB
import SQLiteFiles

/// The chain's statements. Whoever appends does so inside a transaction, and from the head that it read there.
struct SQLiteChain {
    let node: AuditNode

    /// Where this node's chain ends.
    func head(_ db: Database) throws -> ChainHead {
        let found = try db.firstRow(
            "SELECT sequence, hash FROM audit_record WHERE node = ? ORDER BY sequence DESC LIMIT 1", .text(node.name)
        ) { row -> ChainHead? in
            guard let sequence = row.integer(0), let hash = row.blob(1).flatMap({ AuditDigest(bytes: $0) }) else {
                return nil
            }
            return ChainHead(node: node, sequence: Int(sequence), hash: hash)
        }
        guard let last = found else { return ChainHead(node: node) }
        guard let head = last else {
            throw LedgerFailure.unavailable(reason: "The last audit record has an impossible sequence or hash.")
        }
        return head
    }

    /// The head moves only when the line is stored.
    func append(_ record: AuditRecord, to head: inout ChainHead, _ db: Database) throws -> AuditLine {
        var next = head
        let line = next.append(record)
        try db.run(
            """
            INSERT INTO audit_record (node, sequence, time, event, outcome, caller, caller_uid, merchant,
                public_key_hash, transaction_id, hash, line)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            .text(line.node.name), .integer(Int64(line.sequence)), .integer(record.time.milliseconds),
            .text(record.event.name.rawValue), .text(record.outcome.text), .text(optional: record.caller?.name?.text),
            record.caller.map { .integer(Int64($0.uid)) } ?? .null, .text(optional: record.merchant?.text),
            .blob(optional: record.publicKeyHash?.bytes), .blob(optional: record.transactionId?.bytes),
            .blob(line.hash.bytes), .blob(line.bytes))
        head = next
        return line
    }

    /// Whether this very line is stored. No other can have its place and its hash.
    func holds(_ line: AuditLine, _ db: Database) throws -> Bool {
        try hash(of: line.sequence, db) == line.hash
    }

    /// The hash of this node's record of a sequence.
    func hash(of sequence: Int, _ db: Database) throws -> AuditDigest? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT hash FROM audit_record WHERE node = ? AND sequence = ?"),
            arguments: [node.name, sequence]
        )?.digest("hash")
    }
}

extension Row {
    /// A column with 32 bytes.
    func digest(_ column: String) throws -> AuditDigest {
        let bytes: Data = try value(column)
        guard let digest = AuditDigest(bytes: bytes) else {
            throw LedgerFailure.unavailable(reason: "The column \(column) holds \(bytes.count) bytes instead of 32.")
        }
        return digest
    }
}

/// The checkpoints' statements.
struct SQLiteCheckpoints {
    let chain: SQLiteChain
    private var node: String { chain.node.name }

    init(chain: SQLiteChain) {
        self.chain = chain
    }

    func insert(_ signed: SignedCheckpoint, _ db: Database) throws {
        let checkpoint = signed.checkpoint
        try db.cachedStatement(
            sql: """
                INSERT INTO checkpoint (node, sequence, time, line) VALUES (?, ?, ?, ?)
                ON CONFLICT (node, sequence) DO NOTHING
                """
        ).execute(arguments: [node, checkpoint.sequence, checkpoint.time.milliseconds, signed.line.blob])
    }

    func exists(_ sequence: Int, _ db: Database) throws -> Bool {
        try !page("sequence = ?", [sequence], limit: 1, db).isEmpty
    }

    func latest(below limit: Int?, _ db: Database) throws -> SignedCheckpoint? {
        try page("sequence < ?", [limit ?? Int.max], order: "DESC", limit: 1, db).first
    }

    func first(from sequence: Int, _ db: Database) throws -> SignedCheckpoint? {
        try page("sequence >= ?", [sequence], limit: 1, db).first
    }

    func after(_ sequence: Int, limit: Int, _ db: Database) throws -> [SignedCheckpoint] {
        try page("sequence > ?", [sequence], limit: min(max(limit, 1), 1000), db)
    }

    private func page(
        _ condition: String, _ values: [Int], order: String = "ASC", limit: Int, _ db: Database
    ) throws -> [SignedCheckpoint] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT line FROM checkpoint WHERE node = ? AND \(condition) ORDER BY sequence \(order) LIMIT ?"),
            arguments: StatementArguments([node] + values + [limit] as [any DatabaseValueConvertible])
        ).map { row in
            guard let checkpoint = SignedCheckpoint(line: Array(try row.value("line") as Data)) else {
                throw LedgerFailure.unavailable(
                    reason: "A stored checkpoint is not readable: the ledger was changed by another program.")
            }
            return checkpoint
        }
    }
}
