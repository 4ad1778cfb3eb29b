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

    public func head() async throws(LedgerFailure) -> ChainHead { try await ownChain.head() }

    public func lastArchive() async throws(LedgerFailure) -> RecordArchive? { try await ownChain.lastArchive() }

    public func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage {
        try await ownChain.records(filter, order: order, after: cursor, limit: limit)
    }

    public func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>? {
        try await ownChain.extent(since: since, until: until)
    }

    public func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine] {
        try await ownChain.lines(sequences, limit: limit)
    }

    public func firstRelease(
        to uid: UInt32, in sequences: ClosedRange<Int>
    ) async throws(LedgerFailure) -> AuditTime? {
        try await search { [records] in try records.firstRelease(to: uid, in: sequences, $0) }
    }

    public func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure) {
        try await writer.administer { try $0.insert(checkpoint) }
    }

    public func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ownChain.latestCheckpoint(below: limit)
    }

    public func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint? {
        try await ownChain.firstCheckpoint(from: sequence)
    }

    public func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint] {
        try await ownChain.checkpoints(after: sequence, limit: limit)
    }

    private var ownChain: PostgreSQLChain { PostgreSQLChain(records: records, ledger: self) }

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
