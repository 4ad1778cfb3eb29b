import AuditChain

/// A part of a node's chain, page by page, that can be verified by itself: it begins with record 1 or with the signed
/// checkpoint before its first record, which is the last archived one where the record's beginning is archived.
///
/// It reads pages of records that never change again, so it needs the same memory for any number of them, holds no
/// snapshot while the reader of the export takes its time, and never keeps the writer waiting.
public struct AuditLinePages: AsyncSequence, Sendable {
    public struct Page: Sendable, Equatable {
        public let lines: [StoredLine]
        /// The last record's sequence so far.
        public let sequence: Int

        /// The lines with a line feed after each.
        public var bytes: [UInt8] { lines.exported }
    }

    let trail: any ChainReading
    let first: Int
    let last: Int?
    let pageSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(export: self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let export: AuditLinePages
        /// Nil before the first page.
        private var extent: (behind: Int, last: Int)?

        init(export: AuditLinePages) {
            self.export = export
        }

        public mutating func next() async throws(LedgerFailure) -> Page? {
            guard let (behind, last) = extent else { return try await begin() }
            guard behind < last else { return nil }
            let lines = try await export.trail.lines(behind + 1...last, limit: export.pageSize)
            guard let reached = lines.last?.sequence, reached > behind else {
                // Nothing where something must be; a verifier sees that lines are missing.
                extent = (last, last)
                return nil
            }
            extent = (reached, last)
            return Page(lines: lines, sequence: reached)
        }

        private mutating func begin() async throws(LedgerFailure) -> Page? {
            let head = try await export.trail.head().sequence
            var last = Swift.min(export.last ?? head, head)
            // An end between two checkpoints would not be sealed.
            if last < head, let seal = try await export.trail.firstCheckpoint(from: last) {
                last = Swift.max(last, seal.checkpoint.sequence)
            }
            // Behind what is archived, the chain begins with the checkpoint of the archive's last record.
            let first = Swift.max(export.first, (try await export.trail.lastArchive()?.last ?? 0) + 1)
            guard first > 1, let start = try await export.trail.latestCheckpoint(below: first) else {
                extent = (0, last)
                return try await next()
            }
            let sequence = start.checkpoint.sequence
            extent = (sequence, Swift.max(last, sequence))
            return Page(lines: [.checkpoint(sequence: sequence, start.line)], sequence: sequence)
        }
    }
}

extension ChainReading {
    /// An export of the chain.
    ///
    /// - Parameters:
    ///   - first: the first sequence that is wanted. The export begins behind the last checkpoint before it, or with
    ///     record 1 when there is none.
    ///   - last: the last that is wanted; nil for the chain's end when the reading begins. Where a later checkpoint
    ///     seals it, the export goes on until there.
    ///   - pageSize: how many records are read at once.
    public func export(from first: Int = 1, through last: Int? = nil, pageSize: Int = 500) -> AuditLinePages {
        AuditLinePages(trail: self, first: first, last: last, pageSize: min(max(pageSize, 1), 1000))
    }
}
