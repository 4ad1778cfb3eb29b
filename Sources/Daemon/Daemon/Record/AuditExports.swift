import AuditChain
import HTTPListener
import Ledger

/// An export of the record as JSON lines, which verifiers read.
///
/// It reads the chain in pages. So it needs the same memory for any number of records, and it keeps no lock or
/// transaction of the ledger while a slow reader takes its time.
struct ChainExport: Sendable {
    let trail: any ChainReading
    /// The first and the last requested sequence; nil if no record is requested. The export begins and ends at audit
    /// checkpoints, so it may contain more records on either side.
    let wanted: ClosedRange<Int>?
    /// The audit checkpoint made for this export. It seals the export's last record or a later one.
    let seal: SignedCheckpoint?
    /// True if the export continues with what is recorded and sealed later.
    let follows: Bool
    /// The time that a follower waits before it reads again.
    var pause = Duration.milliseconds(200)

    func write(to writer: BodyWriter) async throws {
        var end = Position()
        if let wanted {
            for try await page in trail.export(from: wanted.lowerBound, through: wanted.upperBound) {
                try await writer.write(page.bytes)
                end.pass(page.lines)
            }
        } else if let seal {
            // The export has no record, only a signed statement of the chain's end.
            let line = StoredLine.checkpoint(sequence: seal.checkpoint.sequence, seal.line)
            try await writer.write([line].exported)
            end.pass([line])
        }
        if follows { try await follow(from: end, writer) }
    }

    /// The position that the written lines have reached.
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

    /// Runs until its task is cancelled. An audit checkpoint belongs after the record that it seals. If one is stored
    /// when later records are already written, it is left out, and the next one seals those records too.
    private func follow(from start: Position, _ writer: BodyWriter) async throws {
        var end = start
        while true {
            try Task.checkCancellation()
            // Reading starts at the last record, since its audit checkpoint may have been stored in the meantime.
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

/// An export, as JSON lines, of the records that meet conditions other than a time. The records between them are left
/// out, so the export cannot be verified; its first line says that.
///
/// It begins with the signed audit checkpoint before its first record, if there is one. Like every other export, it
/// ends with the audit checkpoint made for it.
struct SelectionExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// The last sequence that is read.
    let last: Int
    /// The audit checkpoint made for this export; nil if nothing was ever recorded.
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

/// The record as CSV, for reading and not for verification, as its first line says.
struct CSVExport: Sendable {
    let trail: any ChainReading
    let filter: AuditFilter
    /// The last sequence of an export that does not follow.
    let last: Int
    let follows: Bool
    /// False if another node's rows precede these, since the header is then already written.
    var hasHeader = true
    /// The time that a follower waits before it reads again.
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

    /// Replaces a damaged line by a notice, so that it does not prevent reading the others.
    private static func row(_ record: StoredRecord) -> [UInt8] {
        do throws(AuditEntryError) {
            return AuditCSV.row(try AuditEntry(line: record.line))
        } catch {
            return Array(
                "\"# Record \(record.sequence) cannot be read: \(error). Verify the record.\"\r\n".utf8)
        }
    }
}

/// The records that match a filter, oldest first, in pages.
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

    /// Allows further reading after the end was reached, since more may have been recorded.
    mutating func continuePastEnd() { isAtEnd = false }
}
