import AuditChain

/// A section of a node's chain that can be verified by itself, read page by page. It begins with record 1 or with the
/// audit checkpoint before its first record. If the beginning of the chain is archived, the section can begin with the
/// archive's last audit checkpoint.
///
/// Each page is read separately. Since records never change once written, the pages need no common snapshot, memory use
/// is constant, and a slow reader of the export does not delay the writer.
public struct AuditLinePages: AsyncSequence, Sendable {
    public struct Page: Sendable, Equatable {
        public let lines: [StoredLine]
        /// The sequence of the last record in this page or an earlier page. If no record was read yet, it is the
        /// sequence of the audit checkpoint with which the section begins.
        public let sequence: Int

        /// The lines, each followed by a line feed.
        public var bytes: [UInt8] { lines.exported }
    }

    let trail: any ChainReading
    package let first: Int
    package let last: Int?
    let pageSize: Int

    public func makeAsyncIterator() -> Iterator { Iterator(export: self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let export: AuditLinePages
        /// The last sequence that was read (`read`) and the last one to read (`last`); nil before the first page.
        private var extent: (read: Int, last: Int)?

        package init(export: AuditLinePages) {
            self.export = export
        }

        public mutating func next() async throws(LedgerFailure) -> Page? {
            guard let (read, last) = extent else { return try await begin() }
            guard read < last else { return nil }
            let lines = try await export.trail.lines(read + 1...last, limit: export.pageSize)
            guard let reached = lines.last?.sequence, reached > read else {
                // The next records are missing from the ledger. End the export; a verifier detects that its end is not
                // sealed.
                extent = (last, last)
                return nil
            }
            extent = (reached, last)
            return Page(lines: lines, sequence: reached)
        }

        private mutating func begin() async throws(LedgerFailure) -> Page? {
            let head = try await export.trail.head().sequence
            var last = Swift.min(export.last ?? head, head)
            // Continue to the next audit checkpoint. Otherwise the export would end with records that are not sealed.
            if last < head, let seal = try await export.trail.firstCheckpoint(from: last) {
                last = Swift.max(last, seal.checkpoint.sequence)
            }
            // After archiving, the chain begins with the audit checkpoint of the archive's last record.
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
    /// Returns a section of the chain as lines in export form, to be verified by itself.
    ///
    /// - Parameters:
    ///   - first: the first sequence to export. The export begins after the last audit checkpoint before it, or with
    ///     record 1 if there is none.
    ///   - last: the last sequence to export; nil for the end of the chain when reading begins. If the next audit
    ///     checkpoint has a later sequence, the export continues up to that checkpoint.
    ///   - pageSize: the number of records read at once.
    public func export(from first: Int = 1, through last: Int? = nil, pageSize: Int = 500) -> AuditLinePages {
        AuditLinePages(trail: self, first: first, last: last, pageSize: min(max(pageSize, 1), 1000))
    }
}
