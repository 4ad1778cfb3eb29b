import AuditChain
import HTTPListener
import Ledger

/// One node's part of an export, in any format.
struct ExportPart: Sendable {
    let query: AuditExportQuery
    let chain: NodeChains.Chain
    /// The sequences that match the query's times; nil if none do.
    let wanted: ClosedRange<Int>?
    /// The sequence at which the request itself is recorded in this node's record. This node's part ends there.
    let readRecord: Int
    /// The audit checkpoint made for the export, of this node's record; nil for another node's part, which ends with
    /// that node's last audit checkpoint.
    let seal: SignedCheckpoint?
    /// True for the first part of the export.
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

    /// Returns the wanted sequences without the records after another node's last seal.
    private func sequences(through end: Int) -> ClosedRange<Int>? {
        guard let wanted else { return nil }
        let last = query.filter.until == nil || !chain.isOwn && wanted.upperBound > end ? end : wanted.upperBound
        return wanted.lowerBound <= last ? wanted.lowerBound...last : nil
    }
}
