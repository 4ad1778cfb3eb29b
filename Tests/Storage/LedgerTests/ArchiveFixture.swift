import AuditChain
import Foundation
import TestSupport

@testable import Ledger

/// A ledger whose audit record is two years old, so that its beginning can be archived.
struct ArchiveFixture: Sendable {
    let fixture: LedgerFixture
    let signer = CheckpointSigner()

    /// The time of all records, which is two years ago. A PostgreSQL ledger refuses to archive records of the last
    /// thirteen months.
    static let old = Date(timeIntervalSinceNow: -730 * 86_400)

    /// Makes a ledger with 30 records and audit checkpoints of the records 10, 20 and 30.
    init(engine: StorageEngine = .current) async throws {
        fixture = try await LedgerFixture(engine: engine)
        let identifier = [UInt8](repeating: 5, count: 16)
        try await ledger.planAuditKey(identifier: identifier, in: "primary")
        try await ledger.confirmAuditKey(
            identifier: identifier, publicKey: Array(signer.key.publicKey.x963Representation), recording: nil)
        for number in 1...30 {
            _ = try await ledger.append(AuditRecord(time: AuditTime(Self.old), event: .verify))
            if number % 10 == 0 { try await signer.seal(ledger, at: Self.old) }
        }
    }

    var ledger: any TestedLedger { fixture.ledger }

    /// Returns an archive of these records, and the content of its file.
    func archive(_ sequences: ClosedRange<Int>) async throws -> (archive: RecordArchive, file: [UInt8]) {
        var file: [UInt8] = []
        for try await page in ledger.export(from: sequences.lowerBound, through: sequences.upperBound) {
            file += page.bytes
        }
        guard let line = try await ledger.lines(sequences.upperBound...sequences.upperBound, limit: 1).first,
            let entry = try? AuditEntry(line: line.bytes),
            let archive = RecordArchive(
                first: sequences.lowerBound, last: sequences.upperBound, hash: entry.hash, digest: .of(file),
                size: file.count)
        else { throw LedgerFixture.Broken() }
        return (archive, file)
    }

    func record(_ archive: RecordArchive) async throws(LedgerFailure) {
        var change = AdministrativeChange(at: Date(), records: [])
        change.archive = archive
        try await ledger.apply(change)
    }

    /// Archives these records, and seals the record of the archiving.
    ///
    /// - Returns: the file's content.
    @discardableResult
    func archived(_ sequences: ClosedRange<Int>) async throws -> [UInt8] {
        let (archive, file) = try await archive(sequences)
        try await record(archive)
        try await signer.seal(ledger)
        return file
    }

    /// Removes the archived records from the ledger, at most `limit` in each step.
    ///
    /// - Returns: the number of records that each step removed.
    @discardableResult
    func remove(limit: Int = 500) async throws -> [Int] {
        var counts: [Int] = []
        while case let count = try await ledger.removeArchivedRecords(limit: limit), count > 0 { counts.append(count) }
        return counts
    }

    /// The lines of a full export in short form: `c10` is the checkpoint of record 10.
    func shape(from first: Int = 1) async throws -> [String] {
        var shape: [String] = []
        for try await page in ledger.export(from: first, pageSize: 7) {
            shape += page.lines.map { line in
                switch line {
                case .record(let sequence, _): "\(sequence)"
                case .checkpoint(let sequence, _): "c\(sequence)"
                }
            }
        }
        return shape
    }
}
