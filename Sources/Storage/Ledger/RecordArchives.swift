package import AuditChain
package import Foundation

/// The reason why records were not archived.
public enum ArchiveConflict: Error, Sendable, Equatable, CustomStringConvertible {
    /// The archive does not begin with record `expected`, the next one after the previous archive.
    case notNext(expected: Int)
    /// The ledger does not contain the archive's last record with the archive's hash, or has no audit checkpoint of
    /// that record.
    case unsealed

    public var description: String {
        switch self {
        case .notNext(let expected): "The archive must begin with record \(expected), after the last archive."
        case .unsealed: "The archive does not end with a record of this ledger that a checkpoint seals."
        }
    }
}

extension LedgerTransaction {
    /// Records an archive and the states of all keys. A restore checks the keys' rows against the record. Without these
    /// states, the restore could not check changes whose records are archived.
    package func take(_ archive: RecordArchive, at now: Date) throws -> [AuditLine] {
        let records = RecordStatements(node: node)
        // The sequence of the last archived record, including archives whose own record is not sealed yet.
        let last = Int(try number("SELECT max(last) FROM archive WHERE node = $1", [.text(node.name)]) ?? 0)
        guard archive.first == last + 1 else {
            throw LedgerFailure.archive(.notNext(expected: last + 1))
        }
        guard try records.hash(of: archive.last, self) == archive.hash,
            try !records.checkpoints("sequence = $2", archive.last, limit: 1, self).isEmpty
        else { throw LedgerFailure.archive(.unsealed) }
        let states = try KeyRecordRow.all(self).compactMap { key in
            AuditDigest(bytes: key.publicKeyHash.bytes).flatMap { digest in
                AuditKeyState(rawValue: key.state.rawValue).map { (key: digest, state: $0) }
            }
        }
        var lines: [AuditLine] = []
        for event in KeyStatesPart.parts(of: states).map(AuditEvent.keyStates) + [.recordArchive(archive)] {
            lines.append(try append(AuditRecord(time: AuditTime(now), event: event)))
        }
        if let line = lines.last { try store(archive, recordedAs: line.sequence) }
        return lines
    }
}
