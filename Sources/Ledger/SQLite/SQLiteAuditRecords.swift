import AuditChain
import Foundation
import GRDB

/// The statements that read audit records.
struct SQLiteAuditRecords {
    let node: AuditNode

    func page(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int, _ db: Database
    ) throws -> AuditPage {
        let limit = min(max(limit, 1), 1000)
        var conditions = SQLiteAuditConditions(filter, node: node)
        if let cursor {
            conditions.add(order == .oldestFirst ? "sequence > ?" : "sequence < ?", cursor)
        } else if filter.since != nil || filter.until != nil {
            // Where the index of times begins and ends to match, so that the rows around need not be looked at.
            guard let extent = try extent(since: filter.since, until: filter.until, db) else {
                return AuditPage(records: [], next: nil)
            }
            conditions.add("sequence >= ?", extent.lowerBound)
            conditions.add("sequence <= ?", extent.upperBound)
        }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, hash, line FROM audit_record INDEXED BY \(conditions.index)
                    WHERE \(conditions.sql) ORDER BY sequence \(order == .oldestFirst ? "ASC" : "DESC") LIMIT ?
                    """),
            arguments: StatementArguments(conditions.values + [limit + 1]))
        let records = try rows.prefix(limit).map { row in
            StoredRecord(
                sequence: try row.value("sequence"), hash: try row.digest("hash"),
                line: Array(try row.value("line") as Data))
        }
        return AuditPage(records: records, next: rows.count > limit ? records.last?.sequence : nil)
    }

    func extent(since: AuditTime?, until: AuditTime?, _ db: Database) throws -> ClosedRange<Int>? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(sequence) AS first, max(sequence) AS last FROM audit_record
                    WHERE node = ? AND time >= ? AND time < ?
                    """),
            arguments: [
                node.name, since?.milliseconds ?? Int64.min, until?.milliseconds ?? Int64.max,
            ])
        guard let row, let first: Int = try row.value("first"), let last: Int = try row.value("last") else {
            return nil
        }
        return first...last
    }

    func lines(_ sequences: ClosedRange<Int>, limit: Int, _ db: Database) throws -> [StoredLine] {
        let records = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, line FROM audit_record
                    WHERE node = ? AND sequence BETWEEN ? AND ? ORDER BY sequence LIMIT ?
                    """),
            arguments: [node.name, sequences.lowerBound, sequences.upperBound, min(max(limit, 1), 1000)]
        ).map { row in
            StoredLine.record(sequence: try row.value("sequence"), Array(try row.value("line") as Data))
        }
        guard let first = records.first?.sequence, let last = records.last?.sequence else { return [] }
        let checkpoints = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT sequence, line FROM checkpoint
                    WHERE node = ? AND sequence BETWEEN ? AND ? ORDER BY sequence
                    """),
            arguments: [node.name, min(first, sequences.lowerBound), last]
        ).map { row in
            StoredLine.checkpoint(sequence: try row.value("sequence"), Array(try row.value("line") as Data))
        }
        guard !checkpoints.isEmpty else { return records }
        var merged: [StoredLine] = []
        var waiting = checkpoints[...]
        for record in records {
            while let checkpoint = waiting.first, checkpoint.sequence < record.sequence {
                merged.append(checkpoint)
                waiting.removeFirst()
            }
            merged.append(record)
        }
        return merged + waiting
    }
}
