public import AuditChain
package import Foundation

/// This node's record of key use: a hash chain with signed audit checkpoints.
///
/// Sequences have no gaps and the chain has no forks, since a single writer makes each line inside the transaction that
/// stores it.
public protocol AuditTrail: ChainReading {
    /// Records an event, which is durable when the call returns.
    ///
    /// - Returns: the record's sequence.
    func append(_ record: AuditRecord) async throws(LedgerFailure) -> Int

    /// Records an event that no caller waits for, such as a refusal, and returns immediately.
    ///
    /// If the ledger cannot accept the record, it is dropped and counted. The ledger records the count, and the time of
    /// the first loss, once it can write again.
    func note(_ record: AuditRecord)

    /// Stores an audit checkpoint. If the ledger already has an audit checkpoint of this sequence, nothing changes.
    ///
    /// - Throws: `foreignCheckpoint` if this node's record of that sequence has a different hash.
    func insert(_ checkpoint: SignedCheckpoint) async throws(LedgerFailure)
}

extension AuditRecord {
    /// The record of notes that were dropped (``AuditTrail/note(_:)``).
    ///
    /// - Parameter since: the time at which the first of them was dropped.
    package static func dropped(_ count: Int, since: Date) -> AuditRecord {
        AuditRecord(
            time: AuditTime(Date()), event: .recordsDropped(count: count, since: AuditTime(since)),
            outcome: .refused(.ledgerUnavailable))
    }
}

/// One node's stored chain.
public protocol ChainReading: Sendable {
    /// Returns the end of the chain.
    func head() async throws(LedgerFailure) -> ChainHead

    /// Returns the newest archive whose own audit record is sealed; nil if there is none. Exports begin after that
    /// archive. The ledger keeps the archive's last record; earlier records can be removed.
    func lastArchive() async throws(LedgerFailure) -> RecordArchive?

    /// Returns a page of the records that match the filter. Archived records, except the last one, are left out.
    ///
    /// - Parameters:
    ///   - filter: the filter; its own limit is ignored.
    ///   - cursor: the sequence of the previous page's last record; nil for the first page.
    ///   - limit: the page size in records, 1 to 1,000.
    func records(
        _ filter: AuditFilter, order: AuditOrder, after cursor: Int?, limit: Int
    ) async throws(LedgerFailure) -> AuditPage

    /// Returns the first and last sequence of the records with times from `since` up to, but not including, `until`;
    /// nil if there are none. Records in between may have other times, since a clock may have been set back.
    func extent(since: AuditTime?, until: AuditTime?) async throws(LedgerFailure) -> ClosedRange<Int>?

    /// Returns the records of these sequences and their audit checkpoints, byte for byte as stored. Each checkpoint
    /// follows the record that it seals. At most `limit` records are returned.
    func lines(_ sequences: ClosedRange<Int>, limit: Int) async throws(LedgerFailure) -> [StoredLine]

    /// Returns the last audit checkpoint with a sequence below `limit`; if `limit` is nil, the last of the chain.
    func latestCheckpoint(below limit: Int?) async throws(LedgerFailure) -> SignedCheckpoint?

    /// Returns the first audit checkpoint with this sequence or a later one.
    func firstCheckpoint(from sequence: Int) async throws(LedgerFailure) -> SignedCheckpoint?

    /// Returns audit checkpoints after `sequence`, in order; `limit` is 1 to 1,000.
    func checkpoints(after sequence: Int, limit: Int) async throws(LedgerFailure) -> [SignedCheckpoint]
}

extension ChainReading {
    public func latestCheckpoint() async throws(LedgerFailure) -> SignedCheckpoint? {
        try await latestCheckpoint(below: nil)
    }
}

/// A key that signs this node's audit checkpoints, as stored in the ledger.
public struct StoredAuditKey: Sendable, Equatable {
    /// The key's CKA_ID in the HSM token, 16 bytes.
    public let identifier: [UInt8]
    /// The public half in the form of `CheckpointKey.init(stored:)`; nil while the key is only planned.
    public let publicKey: [UInt8]?
    /// The configured name of the HSM token that has the key. Nil in ledgers of earlier versions, until the daemon has
    /// found the key in an HSM token.
    public let hsmToken: String?

    public init(identifier: [UInt8], publicKey: [UInt8]?, hsmToken: String? = nil) {
        self.identifier = identifier
        self.publicKey = publicKey
        self.hsmToken = hsmToken
    }
}

public enum AuditOrder: Sendable, Equatable {
    case oldestFirst
    case newestFirst
}

public struct StoredRecord: Sendable, Equatable {
    /// The value of the column `sequence` of the record's row, by which the record was found. Verifiers ignore it and
    /// read the sequence in the line.
    public let sequence: Int
    public let hash: AuditDigest
    /// The line as written, without its line feed.
    public let line: [UInt8]
}

/// A page of the records that match a filter, in the requested order.
public struct AuditPage: Sendable, Equatable {
    public let records: [StoredRecord]
    /// The cursor of the next page; nil if this page is the last.
    public let next: Int?
}

/// A line of an export, without its line feed.
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
    /// Merges audit checkpoints into the records, both ordered by sequence. Each checkpoint follows the record that it
    /// seals.
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

    /// The lines in export form, each followed by a line feed.
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

/// The result of comparing a ledger with a chain head that is stored elsewhere, such as in the HSM token.
public enum HeadComparison: Sendable, Equatable {
    /// The ledger has exactly the head's record, and perhaps later ones.
    case continues
    /// The ledger ends earlier, with record `last`: it was lost, recreated or rolled back.
    case behind(last: Int)
    /// The ledger has a different record with the head's sequence: it continued from an older copy, or was rewritten.
    case forked
    /// The head is of another node's chain.
    case anotherNode
}

extension ChainReading {
    /// Compares this ledger with a head of its chain that is stored elsewhere.
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
