public import AuditChain

/// The record of who used which key when: one hash chain a node, with signed checkpoints.
///
/// Sequences have no gap and the chain has no fork, since the one writer makes every line inside the transaction that
/// stores it.
public protocol AuditTrail: Sendable {
    /// Records an event; it is durable when this answers.
    ///
    /// - Returns: its sequence.
    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int

    /// Records an event that nobody waits for, such as a refusal, and returns at once.
    ///
    /// When the ledger cannot take it, it is dropped and counted; how many were dropped, and since when, becomes a
    /// record of its own as soon as one can be written.
    func note(_ record: AuditRecord)

    /// Where this node's chain ends.
    func head() async throws(LedgerFailure) -> ChainHead

    /// A page of this node's records, of those that the filter matches.
    ///
    /// - Parameters:
    ///   - filter: its own limit does not count here.
    ///   - cursor: the sequence behind which the page begins, in the order's direction; nil for the order's beginning.
    ///   - limit: at least 1, at most 1,000 records.
    func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage

    /// The first and the last sequence of the records with a time from `since` on and before `until`; nil when there is
    /// none. Records between them may have other times: a clock may have been set back.
    func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>?

    /// The records of these sequences with the checkpoints among them, byte for byte as they are stored: each
    /// checkpoint stands behind the record that it seals. The page ends after `limit` records.
    func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine]

    /// Stores a checkpoint. Of several for one sequence the first stays.
    ///
    /// - Throws: `foreignCheckpoint` when this node's record of its sequence does not have its hash.
    func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure)

    /// The last checkpoint of a sequence below `limit`; of all when it is nil.
    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint?

    /// The first checkpoint of this sequence or a later one.
    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint?

    /// Checkpoints by their sequences, those behind `sequence`; at least 1, at most 1,000.
    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint]
}

extension AuditTrail {
    public func latestCheckpoint() async throws(LedgerFailure) -> SignedCheckpoint? {
        try await latestCheckpoint(below: nil)
    }
}
