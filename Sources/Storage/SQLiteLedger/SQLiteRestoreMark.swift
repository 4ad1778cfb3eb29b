package import DatabaseKit
import Foundation
public import Ledger

/// The mark that makes a ledger's file release nothing, because it is a copy or was restored from one. The mark is
/// removed when the restore is accepted.
///
/// A restored ledger lacks the releases that were made after the copy. An HSM token reveals this if it remembers a
/// later record than the copy has, unless the HSM token was itself restored. Therefore the file is marked, also in its
/// schema version (``SQLiteSchemaVersion``), so that no older program releases from it.
package struct SQLiteRestoreMark: Sendable, Equatable {
    /// The time of the restore in milliseconds (``StoredTime``). In a copy that the program has not restored, the time
    /// at which the copy was made.
    let restoredAt: Int64
    /// The sequence of the copy's last record; 0 if there is none.
    let end: Int

    package init(restoredAt: Int64, end: Int) { (self.restoredAt, self.end) = (restoredAt, end) }

    private static let (timeName, endName) = ("restored_at", "restored_end")

    /// Reads the mark; nil for a file that was not restored or whose restore was accepted.
    package static func read(_ db: any StoredQueries) throws -> SQLiteRestoreMark? {
        let isMarked = try SQLiteSchemaVersion.read(db)?.isRestored ?? false
        let time = try SQLiteLedgerMeta.value(timeName, db)
        if time == nil && !isMarked { return nil }
        guard let restoredAt = time.flatMap({ Int64($0) }),
            let end = try SQLiteLedgerMeta.value(endName, db).flatMap({ Int($0) })
        else {
            throw LedgerFailure.unavailable(reason: "Its restore mark has a format that this version does not know.")
        }
        return SQLiteRestoreMark(restoredAt: restoredAt, end: end)
    }

    package func write(_ db: any StoredQueries) throws {
        for (name, value) in [(Self.timeName, String(restoredAt)), (Self.endName, String(end))] {
            try SQLiteLedgerMeta.put(name, value, db)
        }
        try Self.setVersion(isRestored: true, db)
    }

    static func remove(_ db: any StoredQueries) throws {
        try setVersion(isRestored: false, db)
        try SQLiteLedgerMeta.remove([timeName, endName], db)
    }

    private static func setVersion(isRestored: Bool, _ db: any StoredQueries) throws {
        guard var version = try SQLiteSchemaVersion.read(db) else {
            throw LedgerFailure.unavailable(reason: "Its schema version has a format that this version does not know.")
        }
        version.isRestored = isRestored
        try version.write(db)
    }
}

extension SQLiteLedger {
    /// Returns this node's status. It includes a hold if the file was restored and the restore is not accepted.
    public func releaseStatus() async throws(LedgerFailure) -> LedgerReleaseStatus {
        guard let mark = try await read({ db in try SQLiteRestoreMark.read(db) }) else {
            return releaseStatus(withHolds: [])
        }
        return releaseStatus(withHolds: [
            LedgerHold(
                node: node, finding: LedgerHold.Finding(kind: .restored, ledgerSequence: mark.end, remembered: nil),
                foundAt: StoredTime.date(mark.restoredAt))
        ])
    }
}
