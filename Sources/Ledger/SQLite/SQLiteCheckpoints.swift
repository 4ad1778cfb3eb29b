import AuditChain
import Foundation
import GRDB

/// The checkpoints' statements.
struct SQLiteCheckpoints {
    let chain: SQLiteChain
    private var node: String { chain.node.name }

    init(chain: SQLiteChain) {
        self.chain = chain
    }

    func insert(_ signed: SignedCheckpoint, _ db: Database) throws {
        let checkpoint = signed.checkpoint
        guard checkpoint.node == chain.node, try chain.hash(of: checkpoint.sequence, db) == checkpoint.hash else {
            throw LedgerFailure.foreignCheckpoint
        }
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
