public import AuditChain

/// The record of who used which key when, this node's: a hash chain with signed checkpoints.
///
/// Sequences have no gap and the chain has no fork, since the one writer makes every line inside the transaction that
/// stores it.
public protocol AuditTrail: ChainReading {
    /// Records an event; it is durable when this answers.
    ///
    /// - Returns: its sequence.
    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int

    /// Records an event that nobody waits for, such as a refusal, and returns at once.
    ///
    /// When the ledger cannot take it, it is dropped and counted; how many were dropped, and since when, becomes a
    /// record of its own as soon as one can be written.
    func note(_ record: AuditRecord)

    /// Stores a checkpoint. Of several for one sequence the first stays.
    ///
    /// - Throws: `foreignCheckpoint` when this node's record of its sequence does not have its hash.
    func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure)
}

/// One node's chain as it is stored.
public protocol ChainReading: Sendable {
    /// Selects the end of the chain.
    func head() async throws(LedgerFailure) -> ChainHead

    /// The archive behind which the chain begins here; nil where it begins with record 1. Its last record is still here, and so
    /// are, for a while, records before it.
    func lastArchive() async throws(LedgerFailure) -> RecordArchive?

    /// A page of the records, of those that the filter matches. Archived ones are not among them.
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

    /// The last checkpoint of a sequence below `limit`; of all when it is nil.
    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint?

    /// The first checkpoint of this sequence or a later one.
    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint?

    /// Checkpoints by their sequences, those behind `sequence`; at least 1, at most 1,000.
    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint]
}

extension ChainReading {
    public func latestCheckpoint() async throws(LedgerFailure) -> SignedCheckpoint? {
        try await latestCheckpoint(below: nil)
    }
}

/// A key that signs this node's checkpoints, as the ledger knows it.
public struct StoredAuditKey: Sendable, Equatable {
    /// The token's CKA_ID, 16 bytes.
    public let identifier: [UInt8]
    /// The uncompressed point (SEC 1 §2.3.3, 65 bytes); nil while the key is only planned.
    public let publicKey: [UInt8]?

    public init(identifier: [UInt8], publicKey: [UInt8]?) {
        self.identifier = identifier
        self.publicKey = publicKey
    }
}

/// In which order records are read.
public enum AuditOrder: Sendable, Equatable {
    case oldestFirst
    case newestFirst
}

/// A stored record.
public struct StoredRecord: Sendable, Equatable {
    /// The column by which it is found. The line has a sequence of its own, which is what a verifier reads.
    public let sequence: Int
    public let hash: AuditDigest
    /// The line without its line feed, as it was written.
    public let line: [UInt8]
}

/// Some records, in their order.
public struct AuditPage: Sendable, Equatable {
    public let records: [StoredRecord]
    /// The cursor of the next page; nil when there is no more.
    public let next: Int?
}

/// A line of an export without its line feed.
public enum StoredLine: Sendable, Equatable {
    case record(sequence: Int, [UInt8])
    case checkpoint(sequence: Int, [UInt8])

    public var sequence: Int {
        switch self {
        case .record(let sequence, _), .checkpoint(let sequence, _): sequence
        }
    }

    public var bytes: [UInt8] {
        switch self {
        case .record(_, let bytes), .checkpoint(_, let bytes): bytes
        }
    }
}

extension [StoredLine] {
    /// Records with checkpoints among them, both by their sequences: each checkpoint behind the record that it seals.
    func with(_ checkpoints: [StoredLine]) -> [StoredLine] {
        guard !checkpoints.isEmpty else { return self }
        var merged: [StoredLine] = []
        var waiting = checkpoints[...]
        for record in self {
            while let checkpoint = waiting.first, checkpoint.sequence < record.sequence {
                merged.append(checkpoint)
                waiting.removeFirst()
            }
            merged.append(record)
        }
        return merged + waiting
    }

    /// The lines as an export has them, with a line feed after each.
    public var exported: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(reduce(0) { $0 + $1.bytes.count + 1 })
        for line in self {
            bytes.append(contentsOf: line.bytes)
            bytes.append(UInt8(ascii: "\n"))
        }
        return bytes
    }
}

/// How a ledger compares with a chain's head that is remembered elsewhere, such as in the HSM token.
public enum HeadComparison: Sendable, Equatable {
    /// The ledger holds that very record, and perhaps more.
    case continues
    /// The ledger ends before it, with record `last`: it was lost, begun anew or rolled back.
    case behind(last: Int)
    /// The ledger holds another record of that sequence: it went on from an older copy, or was rewritten.
    case forked
    /// The head is of another node's chain.
    case anotherNode
}

extension ChainReading {
    /// Compares this ledger with what is remembered of its chain elsewhere.
    public func compare(with remembered: Checkpoint) async throws(LedgerFailure) -> HeadComparison {
        let head = try await head()
        guard head.node == remembered.node else { return .anotherNode }
        guard head.sequence >= remembered.sequence else { return .behind(last: head.sequence) }
        let page = try await records(
            AuditFilter(), order: .oldestFirst, after: remembered.sequence - 1, limit: 1)
        guard let record = page.records.first, record.sequence == remembered.sequence,
            record.hash == remembered.hash
        else { return .forked }
        return .continues
    }
}
