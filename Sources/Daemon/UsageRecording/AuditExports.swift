import AuditChain
import HTTPListener
import Ledger

/// An export of the record as JSON lines, for verification.
///
/// It reads the chain page by page. Its memory use is therefore the same for any number of records, and a slow reader
/// does not keep a lock or a transaction of the ledger open.
struct ChainExport: Sendable {
    let trail: any ChainReading
    /// The first and last requested sequence; nil if no record is requested. Since an export begins and ends at audit
    /// checkpoints, it may contain further records before and after these.
    let wanted: ClosedRange<Int>?
    /// The audit checkpoint that was made for this export; nil if the chain has no record. It seals the last record of the
    /// export, or a later one.
    let seal: SignedCheckpoint?
    /// True if the export does not end, and continues with the lines that are recorded later.
    let follows: Bool
    /// The pause before the ledger is read again, in an export that follows the record.
    var pause = Duration.milliseconds(200)

    func write(to writer: BodyWriter) async throws {
        var end = Position()
        if let wanted {
            for try await page in trail.export(from: wanted.lowerBound, through: wanted.upperBound) {
                try await writer.write(page.bytes)
                end.pass(page.lines)
            }
        } else if let seal {
            // Without records, the export is only a signed statement of the end of the chain.
            let line = StoredLine.checkpoint(sequence: seal.checkpoint.sequence, seal.line)
            try await writer.write([line].exported)
            end.pass([line])
        }
        if follows { try await follow(from: end, writer) }
    }

    /// The sequences of the last record and the last audit checkpoint that have been written to the export.
    private struct Position {
        var record = 0
        var checkpoint = 0

        mutating func pass(_ lines: [StoredLine]) {
            for line in lines {
                if case .checkpoint(let sequence, _) = line { checkpoint = sequence }
                record = max(record, line.sequence)
            }
        }

        func isNew(_ line: StoredLine) -> Bool {
            switch line {
            case .record(let sequence, _): sequence > record
            case .checkpoint(let sequence, _): sequence > checkpoint
            }
        }
    }

    /// Writes new lines until the task is cancelled. In the export, an audit checkpoint follows directly after the last
    /// record that it seals. If later records were already exported when an audit checkpoint is stored, it is left out.
    /// The next one seals the same records too.
    private func follow(from start: Position, _ writer: BodyWriter) async throws {
        var end = start
        while true {
            try Task.checkCancellation()
            // Reading starts at the last written record, since an audit checkpoint that seals this record may have been
            // stored in the meantime.
            let lines = try await trail.lines(max(end.record, 1)...Int.max, limit: 500).filter(end.isNew)
            if lines.isEmpty {
                try await Task.sleep(for: pause)
            } else {
                try await writer.write(lines.exported)
                end.pass(lines)
            }
        }
    }
}

/// An export, as JSON lines, of the records that match a filter with conditions other than times. Such an export has
/// gaps and cannot be verified, as its first line says.
///
/// It begins with the audit checkpoint before its first record, if there is one. Like every other export, it ends with an
/// audit checkpoint that was made for it.
struct SelectionExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// The last sequence that the export may contain.
    let last: Int
    /// The audit checkpoint that was made for this export; nil if the chain has no record.
    let seal: SignedCheckpoint?

    func write(to writer: BodyWriter) async throws {
        guard let seal else { return }
        try await writer.write(
            FilteredExport.firstLine(filter, node: seal.checkpoint.node, through: last) + [0x0A])
        var pages = RecordPages(trail: trail, filter: filter)
        var isFirst = true
        while let records = try await pages.next(through: last) {
            var bytes: [UInt8] = []
            if isFirst, let first = records.first,
                let before = try await trail.latestCheckpoint(below: first.sequence)
            {
                bytes += before.line + [0x0A]
            }
            isFirst = isFirst && records.isEmpty
            for record in records { bytes += record.line + [0x0A] }
            try await writer.write(bytes)
        }
        try await writer.write(seal.line + [0x0A])
    }
}

/// An export of the record as CSV. It is for people and spreadsheets and cannot be verified, as its first line says.
struct CSVExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// The last sequence that the export may contain. Ignored if ``follows`` is true.
    let last: Int
    /// True if the export waits for new records after the newest one, and therefore does not end by itself.
    let follows: Bool
    /// False if these rows come after another node's rows, which already have the header.
    var hasHeader = true
    /// The pause before the ledger is read again, in an export that follows the record.
    var pause = Duration.milliseconds(200)

    func write(to writer: BodyWriter) async throws {
        if hasHeader { try await writer.write(AuditCSV.header(filter)) }
        var pages = RecordPages(trail: trail, filter: filter)
        while true {
            while let records = try await pages.next(through: follows ? .max : last) {
                try await writer.write(records.flatMap(Self.row))
            }
            guard follows else { return }
            try await Task.sleep(for: pause)
            pages.continuePastEnd()
        }
    }

    /// Returns a record's row. A damaged line becomes a row that says so, so that the other records can be read.
    private static func row(_ record: StoredRecord) -> [UInt8] {
        do throws(AuditEntryError) {
            return AuditCSV.row(try AuditEntry(line: record.line))
        } catch {
            return Array(
                "\"# Record \(record.sequence) cannot be read: \(error). Verify the record.\"\r\n".utf8)
        }
    }
}

/// Reads the records that match a filter page by page, oldest first.
private struct RecordPages {
    let trail: any ChainReading
    let filter: AuditFilter
    private var cursor: Int?
    private var isAtEnd = false

    init(trail: any ChainReading, filter: AuditFilter) {
        self.trail = trail
        self.filter = filter
    }

    /// Returns the next page, up to the sequence `last`; nil after the last page.
    mutating func next(through last: Int) async throws -> ArraySlice<StoredRecord>? {
        guard !isAtEnd else { return nil }
        try Task.checkCancellation()
        let page = try await trail.records(filter, order: .oldestFirst, after: cursor, limit: 500)
        let records = page.records.prefix { $0.sequence <= last }
        cursor = records.last?.sequence ?? cursor
        isAtEnd = page.next == nil || records.count < page.records.count
        return records
    }

    /// Makes ``next(through:)`` read again after it has returned nil, since new records may have been written.
    mutating func continuePastEnd() { isAtEnd = false }
}
