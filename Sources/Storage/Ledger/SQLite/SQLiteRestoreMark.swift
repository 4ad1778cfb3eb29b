import DatabaseKit
import Foundation

/// What a copy of a ledger's file says of itself, and the ledger that is restored from it, until somebody has accepted that.
///
/// What was released after the copy was made is in no file any more. An HSM token tells of that only while it remembers a later
/// record than the copy has, and it may have been restored too, from the same day. So the file itself says it, in its schema's
/// version too (``SQLiteSchemaVersion``), so that an older program put in this one's place does not release from it.
struct SQLiteRestoreMark: Sendable, Equatable {
    /// Of the copy or its restore: milliseconds, ``StoredTime``.
    let restoredAt: Int64
    /// The copy's last record; 0 for none.
    let end: Int

    private static let (timeName, endName) = ("restored_at", "restored_end")

    /// Nil for a file that was not restored, or whose restore was accepted.
    static func read(_ db: any StoredQueries) throws -> SQLiteRestoreMark? {
        let isMarked = try SQLiteSchemaVersion.read(db)?.isRestored ?? false
        let time = try SQLiteLedgerMeta.value(timeName, db)
        if time == nil && !isMarked { return nil }
        guard let restoredAt = time.flatMap({ Int64($0) }),
            let end = try SQLiteLedgerMeta.value(endName, db).flatMap({ Int($0) })
        else {
            throw LedgerFailure.unavailable(reason: "What it says of its restore is not what this version knows.")
        }
        return SQLiteRestoreMark(restoredAt: restoredAt, end: end)
    }

    func write(_ db: any StoredQueries) throws {
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
            throw LedgerFailure.unavailable(reason: "What it says of its schema is not what this version knows.")
        }
        version.isRestored = isRestored
        try version.write(db)
    }
}

extension SQLiteLedger {
    /// Its one node's, with the hold that a restore has left.
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
