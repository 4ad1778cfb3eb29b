package import AuditChain
package import HTTPListener
import Ledger

/// The part of an export that contains one node's records, in any format.
package struct ExportPart: Sendable {
    let query: AuditExportQuery
    let chain: NodeChains.Chain
    /// The sequences of the records whose times match the query; nil if no record matches.
    let wanted: ClosedRange<Int>?
    /// The sequence of the audit record, in this node's chain, that was written for this export request. This node's
    /// part ends with that audit record.
    let readRecord: Int
    /// The audit checkpoint of this node's record that was made for the export. Nil for another node's part, which ends
    /// with that node's last audit checkpoint.
    let seal: SignedCheckpoint?
    /// True for the first part of the export.
    let isFirst: Bool

    package init(
        query: AuditExportQuery, chain: NodeChains.Chain, wanted: ClosedRange<Int>?, readRecord: Int,
        seal: SignedCheckpoint?, isFirst: Bool
    ) {
        (self.query, self.chain, self.wanted) = (query, chain, wanted)
        (self.readRecord, self.seal, self.isFirst) = (readRecord, seal, isFirst)
    }

    package func write(to writer: BodyWriter) async throws {
        let seal = if chain.isOwn { self.seal } else { try await chain.chain.latestCheckpoint() }
        let sealed = seal?.checkpoint.sequence ?? 0
        let end = chain.isOwn ? readRecord : sealed
        switch query.format {
        case .csv:
            let table = CSVExport(
                trail: chain.chain, filter: query.filter, last: wanted == nil ? 0 : end, follows: query.follows,
                hasHeader: isFirst)
            try await table.write(to: writer)
        case .jsonl where query.filter.leavesGaps:
            let selection = SelectionExport(
                trail: chain.chain, filter: query.filter, last: wanted == nil ? 0 : end, seal: seal)
            try await selection.write(to: writer)
        case .jsonl:
            let export = ChainExport(
                trail: chain.chain, wanted: sequences(through: max(end, sealed)), seal: seal,
                follows: query.follows)
            try await export.write(to: writer)
        }
    }

    /// Returns the sequences that this part exports; nil if there are none. If the query has no `until`, they end at
    /// `end`. Another node's part never extends past `end`, because that node's later records are not sealed.
    private func sequences(through end: Int) -> ClosedRange<Int>? {
        guard let wanted else { return nil }
        let last = query.filter.until == nil || !chain.isOwn && wanted.upperBound > end ? end : wanted.upperBound
        return wanted.lowerBound <= last ? wanted.lowerBound...last : nil
    }
}
