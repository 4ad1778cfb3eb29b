public import AuditChain
import Foundation

// The audit record of this node.
extension PostgreSQLLedger {
    public func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int {
        // When the deadline passes during the commit and the record was not written after all, it is counted among those that
        // were dropped.
        try await writer.write(.record(record), lost: writer.writes.loss()) { answer in
            if case .recorded(let line) = answer { line.sequence } else { nil }
        }
    }

    public func note(_ record: AuditRecord) {
        writer.note(record)
    }

    public func head() async throws(LedgerFailure) -> ChainHead {
        try await read { [records] in try records.head($0) }
    }

    public func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await search { [records] in
            try records.page(filter, order: order, after: cursor, limit: limit, $0)
        }
    }

    public func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await search { [records] in try records.extent(since: since, until: until, $0) }
    }

    public func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        try await search { [records] in try records.lines(sequences, limit: limit, $0) }
    }

    public func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {
        try await writer.administer { try $0.insert(checkpoint) }
    }

    public func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [records] in
            try records.checkpoints("sequence < $2", limit ?? Int.max, order: "DESC", limit: 1, $0).first
        }
    }

    public func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await read { [records] in try records.checkpoints("sequence >= $2", sequence, limit: 1, $0).first }
    }

    public func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await search { [records] in
            try records.checkpoints("sequence > $2", sequence, limit: min(max(limit, 1), 1000), $0)
        }
    }

    public func auditKeys() async throws(LedgerFailure) -> [StoredAuditKey] {
        try await read { [records] in try records.auditKeys($0) }
    }

    public func planAuditKey(identifier: [UInt8]) async throws(LedgerFailure) {
        try await writer.administer { try $0.planAuditKey(identifier, at: Date()) }
    }

    @discardableResult
    public func confirmAuditKey(
        identifier: [UInt8], publicKey: [UInt8], recording record: AuditRecord?
    ) async throws(LedgerFailure) -> Int? {
        try await writer.administer {
            try $0.confirmAuditKey(identifier, publicKey, recording: record)
        }?.sequence
    }
}
