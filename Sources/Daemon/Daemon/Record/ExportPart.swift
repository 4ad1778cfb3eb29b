import AuditChain
import HTTPListener
import Ledger

/// One node's part of an export, in whichever form it is wanted.
struct ExportPart: Sendable {
    let query: AuditExportQuery
    let chain: NodeChains.Chain
    /// What meets the query's times; nil when nothing does.
    let wanted: ClosedRange<Int>?
    /// The sequence of the look itself in this node's record: its own part ends there.
    let readRecord: Int
    /// Made for the export, of this node's record; nil for another node's, which ends with the last one that it made.
    let seal: SignedCheckpoint?
    /// Whether it begins the export.
    let isFirst: Bool

    func write(to writer: BodyWriter) async throws {
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

    /// Nothing behind the last seal of another node.
    private func sequences(through end: Int) -> ClosedRange<Int>? {
        guard let wanted else { return nil }
        let last = query.filter.until == nil || !chain.isOwn && wanted.upperBound > end ? end : wanted.upperBound
        return wanted.lowerBound <= last ? wanted.lowerBound...last : nil
    }
}
