import AuditChain
import Ledger

/// The records that meet conditions other than a time, as JSON lines. What stands between them is left out, so nothing of
/// it can be verified; its first line says that.
///
/// It begins with the signed checkpoint before its first record, when there is one, and ends with the checkpoint made for
/// it, like every other export.
struct SelectionExport: Sendable {
    let trail: any AuditTrail
    let filter: AuditFilter
    /// The last sequence that is looked at.
    let last: Int
    /// Made for this export; nil when nothing was ever recorded.
    let seal: SignedCheckpoint?

    func write(to writer: BodyWriter) async throws {
        guard let seal else { return }
        try await writer.write(
            FilteredExport.firstLine(filter, node: seal.checkpoint.node, through: last) + [0x0A])
        var cursor: Int?
        while true {
            try Task.checkCancellation()
            let page = try await trail.records(filter, order: .oldestFirst, after: cursor, limit: 500)
            let records = page.records.prefix { $0.sequence <= last }
            var bytes: [UInt8] = []
            if cursor == nil, let first = records.first,
                let before = try await trail.latestCheckpoint(below: first.sequence)
            {
                bytes += before.line + [0x0A]
            }
            for record in records { bytes += record.line + [0x0A] }
            try await writer.write(bytes)
            cursor = records.last?.sequence ?? cursor
            guard page.next == nil || records.count < page.records.count else { continue }
            return try await writer.write(seal.line + [0x0A])
        }
    }
}
