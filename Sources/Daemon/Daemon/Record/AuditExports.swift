import AuditChain
import HTTPListener
import Ledger

/// The record as JSON lines: what a verifier reads.
///
/// It reads the chain in pages, so it needs the same memory for any number of records and holds nothing of the ledger
/// while a slow reader takes its time.
struct ChainExport: Sendable {
    let trail: any ChainReading
    /// The first and the last sequence that are wanted; nil when no record is. It begins and ends at checkpoints, so
    /// some more may stand on either side.
    let wanted: ClosedRange<Int>?
    /// Made for this export: of its end, or of a later record.
    let seal: SignedCheckpoint?
    /// Whether it goes on with what is recorded and sealed later.
    let follows: Bool
    /// How long a follower waits before it looks again.
    var pause = Duration.milliseconds(200)

    func write(to writer: BodyWriter) async throws {
        var end = Position()
        if let wanted {
            for try await page in trail.export(from: wanted.lowerBound, through: wanted.upperBound) {
                try await writer.write(page.bytes)
                end.pass(page.lines)
            }
        } else if let seal {
            // No record, but a signed statement of where the chain stands.
            let line = StoredLine.checkpoint(sequence: seal.checkpoint.sequence, seal.line)
            try await writer.write([line].exported)
            end.pass([line])
        }
        if follows { try await follow(from: end, writer) }
    }

    /// How far the lines reach that were written.
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

    /// Until its task is cancelled. A checkpoint belongs behind the record that it seals: one that is stored when later
    /// records were written already is left out, and the next one seals those too.
    private func follow(from start: Position, _ writer: BodyWriter) async throws {
        var end = start
        while true {
            try Task.checkCancellation()
            // From the last one on, since its checkpoint may have come since.
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

/// The records that meet conditions other than a time, as JSON lines. The records between them are left out, so nothing of
/// it can be verified; its first line says that.
///
/// It begins with the signed checkpoint before its first record, when there is one, and ends with the checkpoint made for
/// it, like every other export.
struct SelectionExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// The last sequence that is looked at.
    let last: Int
    /// Made for this export; nil when nothing was ever recorded.
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

/// The record as CSV: for reading, not for verifying, as its first line says.
struct CSVExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// Where it ends unless it follows.
    let last: Int
    let follows: Bool
    /// False behind another node's rows.
    var hasHeader = true
    /// How long a follower waits before it looks again.
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

    /// A stored line that was damaged does not keep the others from being read.
    private static func row(_ record: StoredRecord) -> [UInt8] {
        do throws(AuditEntryError) {
            return AuditCSV.row(try AuditEntry(line: record.line))
        } catch {
            return Array(
                "\"# Record \(record.sequence) cannot be read: \(error). Verify the record.\"\r\n".utf8)
        }
    }
}

/// The records that a filter keeps, oldest first, page after page.
private struct RecordPages {
    let trail: any ChainReading
    let filter: AuditFilter
    private var cursor: Int?
    private var isAtEnd = false

    init(trail: any ChainReading, filter: AuditFilter) {
        self.trail = trail
        self.filter = filter
    }

    /// The next records up to a sequence; nil when there are none.
    mutating func next(through last: Int) async throws -> ArraySlice<StoredRecord>? {
        guard !isAtEnd else { return nil }
        try Task.checkCancellation()
        let page = try await trail.records(filter, order: .oldestFirst, after: cursor, limit: 500)
        let records = page.records.prefix { $0.sequence <= last }
        cursor = records.last?.sequence ?? cursor
        isAtEnd = page.next == nil || records.count < page.records.count
        return records
    }

    /// More may have been recorded since the end was reached.
    mutating func continuePastEnd() { isAtEnd = false }
}
