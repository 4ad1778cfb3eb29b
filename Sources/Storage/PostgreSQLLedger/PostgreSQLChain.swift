public import AuditChain
import DatabaseKit
public import Ledger

/// The chain of this node or of another node in the database.
struct PostgreSQLChain: StoredChain {
    let records: RecordStatements
    let ledger: PostgreSQLLedger

    func read<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T { try await ledger.read(body) }

    func search<T: Sendable>(
        _ body: @escaping @Sendable (any StoredQueries) throws -> T
    ) async throws(LedgerFailure) -> T { try await ledger.search(body) }
}

// Reads of other nodes' records.
extension PostgreSQLLedger {
    public func nodes() async throws(LedgerFailure) -> [AuditNode] {
        try await read { queries in
            // Include nodes that have records but no row in `node`. Otherwise the removal of a node's row would hide
            // its records. The recursive query reads each node's name once from the index instead of reading all
            // records.
            let rows = try queries.run(
                """
                WITH RECURSIVE recorded AS (
                    SELECT min(node) AS name FROM audit_record
                    UNION ALL
                    SELECT (SELECT min(a.node) FROM audit_record AS a WHERE a.node > r.name) FROM recorded AS r
                    WHERE r.name IS NOT NULL)
                SELECT name FROM recorded WHERE name IS NOT NULL UNION SELECT name FROM node UNION SELECT node FROM audit_key
                ORDER BY 1 LIMIT \(ChainVerifier.maximumNodes)
                """, [])
            // Skip invalid names, which no daemon has written.
            return try rows.compactMap { AuditNode(try $0.text(0)) }.sorted()
        }
    }

    public func chain(of node: AuditNode) -> any ChainReading {
        PostgreSQLChain(records: RecordStatements(node: node), ledger: self)
    }

    public func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey] {
        try await read { [node] queries in
            try queries.run(
                "SELECT identifier, public_key, hsm_token, node FROM audit_key WHERE node <> $1 ORDER BY node, ordinal",
                [.text(node)]
            ).compactMap { row in
                let key = try RecordStatements.auditKey(row)
                return AuditNode(try row.text(3)).map { NodeAuditKey(node: $0, key: key) }
            }
        }
    }

    public func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord] {
        var found: [StoredRecord] = []
        while true {
            let last = Int64(found.last?.sequence ?? 0)
            let page = try await search { queries in
                try queries.run(
                    """
                    SELECT sequence, hash, line FROM audit_record
                    WHERE node = $1 AND sequence > $2 AND \(PostgreSQLTables.auditKeyEvents) ORDER BY sequence LIMIT 1000
                    """, [.text(node.name), .integer(last)]
                ).map(RecordStatements.record)
            }
            guard !page.isEmpty else { return found }
            found += page
        }
    }
}

extension PostgreSQLTables {
    /// The condition of the partial index in ``version4``. PostgreSQL uses that index only for statements with the same
    /// condition.
    static let auditKeyEvents = "event IN ('audit_key_prepare', 'audit_key_pinned', 'audit_key_conflict')"

    /// The index with which a node finds its records about audit keys at every start, among millions of records.
    static let version4 = [
        "CREATE INDEX audit_record_of_keys ON audit_record (node, sequence) WHERE \(auditKeyEvents)"
    ]
}
