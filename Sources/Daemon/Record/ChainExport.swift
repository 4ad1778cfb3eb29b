import AuditChain
import Ledger

/// The record as JSON lines: what a verifier reads.
///
/// It goes through the chain in pages, so it needs the same memory for any number of records and holds nothing of the
/// ledger while its reader takes time.
struct ChainExport: Sendable {
    let trail: any AuditTrail
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
