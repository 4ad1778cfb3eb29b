import AuditChain
import Ledger

/// The record as CSV: for reading, not for verifying, as its first line says.
struct CSVExport: Sendable {
    let trail: any AuditTrail
    let filter: AuditFilter
    /// Where it ends unless it follows.
    let last: Int
    let follows: Bool
    var pause = Duration.milliseconds(200)

    func write(to writer: BodyWriter) async throws {
        try await writer.write(AuditCSV.header(filter))
        var cursor: Int?
        while true {
            try Task.checkCancellation()
            let page = try await trail.records(filter, order: .oldestFirst, after: cursor, limit: 500)
            let records = follows ? page.records[...] : page.records.prefix { $0.sequence <= last }
            var bytes: [UInt8] = []
            for record in records { bytes.append(contentsOf: Self.row(record)) }
            try await writer.write(bytes)
            cursor = records.last?.sequence ?? cursor
            guard page.next == nil || records.count < page.records.count else { continue }
            guard follows else { return }
            try await Task.sleep(for: pause)
        }
    }

    /// A record that was changed so that it is none any more does not keep the others from being read.
    private static func row(_ record: StoredRecord) -> [UInt8] {
        do throws(AuditEntryError) {
            return AuditCSV.row(try AuditEntry(line: record.line))
        } catch {
            return Array(
                "\"# Record \(record.sequence) cannot be read: \(error). Run paytokenctl audit verify.\"\r\n".utf8)
        }
    }
}
