public import AuditChain

/// One node's chain in the database, this node's or another's.
struct PostgreSQLChain: ChainReading {
    let records: PostgreSQLAuditRecords
    let ledger: PostgreSQLLedger

    func head() async throws(LedgerFailure) -> ChainHead {
        try await ledger.read { [records] in try records.head($0) }
    }

    func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await ledger.search { [records] in
            try records.page(filter, order: order, after: cursor, limit: limit, $0)
        }
    }

    func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await ledger.search { [records] in try records.extent(since: since, until: until, $0) }
    }

    func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        try await ledger.search { [records] in try records.lines(sequences, limit: limit, $0) }
    }

    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ledger.read { [records] in
            try records.checkpoints("sequence < $2", limit ?? Int.max, order: "DESC", limit: 1, $0).first
        }
    }

    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ledger.read { [records] in
            try records.checkpoints("sequence >= $2", sequence, limit: 1, $0).first
        }
    }

    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await ledger.search { [records] in
            try records.checkpoints("sequence > $2", sequence, limit: min(max(limit, 1), 1000), $0)
        }
    }
}

// What this node reads of the others' records.
extension PostgreSQLLedger {
    public func nodes() async throws(LedgerFailure) -> [AuditNode] {
        try await read { queries in
            // Nodes that have a record and nothing else are among them: a row of `node` is removed more easily than noticed. The
            // index gives one name after the other, so that no record is read.
            let rows = try queries.rows(
                """
                WITH RECURSIVE recorded AS (
                    SELECT min(node) AS name FROM audit_record
                    UNION ALL
                    SELECT (SELECT min(a.node) FROM audit_record AS a WHERE a.node > r.name) FROM recorded AS r
                    WHERE r.name IS NOT NULL)
                SELECT name FROM recorded WHERE name IS NOT NULL UNION SELECT name FROM node UNION SELECT node FROM audit_key
                ORDER BY 1 LIMIT \(ChainVerifier.maximumNodes)
                """)
            // What is no node's name no daemon has written.
            return try rows.compactMap { AuditNode(try $0.text(0)) }.sorted()
        }
    }

    public func chain(of node: AuditNode) -> any ChainReading {
        PostgreSQLChain(records: PostgreSQLAuditRecords(node: node), ledger: self)
    }

    public func auditKeysOfOtherNodes() async throws(LedgerFailure) -> [NodeAuditKey] {
        try await read { [node] queries in
            try queries.rows(
                "SELECT identifier, public_key, node FROM audit_key WHERE node <> $1 ORDER BY node, ordinal",
                [.text(node)]
            ).compactMap { row in
                let key = try PostgreSQLAuditRecords.auditKey(row)
                return AuditNode(try row.text(2)).map { NodeAuditKey(node: $0, key: key) }
            }
        }
    }

    public func auditKeyEvents(of node: AuditNode) async throws(LedgerFailure) -> [StoredRecord] {
        try await search { queries in
            try queries.rows(
                """
                SELECT sequence, hash, line FROM audit_record WHERE node = $1 AND \(PostgreSQLTables.auditKeyEvents)
                ORDER BY sequence LIMIT 4096
                """, [.text(node.name)]
            ).map { row in
                StoredRecord(sequence: Int(try row.integer(0)), hash: try row.digest(1), line: try row.bytes(2))
            }
        }
    }
}

extension PostgreSQLTables {
    /// Word for word in the index and in what reads by it.
    static let auditKeyEvents = "event IN ('audit_key_prepare', 'audit_key_pinned', 'audit_key_conflict')"

    /// How a node finds what its record says of audit keys, at every start, among millions of records.
    static let version4 = [
        "CREATE INDEX audit_record_of_keys ON audit_record (node, sequence) WHERE \(auditKeyEvents)"
    ]
}
