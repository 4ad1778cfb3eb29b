import AuditChain
import Foundation
import GRDB

/// The statements about the time: what is forgotten, and which times the ledger has seen.
struct SQLiteTimes {
    let node: String

    func times(_ db: Database) throws -> LedgerTimes {
        let accepted = try clockAcceptedAfter(db)
        // From the newest time downwards, for which the plus sees to the index by time. What is passed over are the records
        // that a wrong clock wrote before it was accepted: usually none.
        let newest = try Int64.fetchOne(
            db.cachedStatement(
                sql: "SELECT time FROM audit_record WHERE node = ? AND +sequence > ? ORDER BY time DESC LIMIT 1"),
            arguments: [node, accepted])
        return LedgerTimes(
            newestRecord: newest.map(StoredTime.date), forgottenBefore: try forgottenBefore(db).map(StoredTime.date),
            restoreFence: try value(Self.restoreFenceName, db).map(StoredTime.date))
    }

    private func forgottenBefore(_ db: Database) throws -> Int64? { try value(Self.forgottenName, db) }

    func limits(_ db: Database) throws -> ReleaseLimits {
        ReleaseLimits(forgottenBefore: try forgottenBefore(db), restoreFence: try value(Self.restoreFenceName, db))
    }

    /// Payment tokens that were signed before it are refused from now on where no claim is found. It never goes back.
    func raise(restoreFence fence: Int64, _ db: Database) throws {
        try put(Self.restoreFenceName, max(fence, try value(Self.restoreFenceName, db) ?? fence), db)
    }

    /// Remembers that claims of payment tokens that were signed before `time` are not all here any more. A later configuration
    /// may accept such old tokens again, and the ledger could not tell whether they were released.
    func forget(signedBefore time: Int64, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO ledger_meta (name, value) VALUES ('\(Self.forgottenName)', ?)
                ON CONFLICT (name) DO UPDATE SET value = excluded.value
                WHERE CAST(excluded.value AS INTEGER) > CAST(ledger_meta.value AS INTEGER)
                """
        ).execute(arguments: [String(time)])
    }

    /// - Parameter sequence: of the acceptance's own record, the first that counts for the newest time from then on.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int, _ db: Database) throws {
        guard try forgottenBefore(db).map(StoredTime.date) == change.forgottenBefore else {
            throw LedgerFailure.timesConflict
        }
        if let servedFrom = change.servedFrom {
            try put(Self.forgottenName, StoredTime.milliseconds(servedFrom), db)
        }
        try put(Self.acceptedName, Int64(sequence - 1), db)
    }

    /// By how much a released token's signing time, which is Apple's, was ahead of the clock that claimed it, at most; in
    /// milliseconds. More than a little of it: the clock was behind, within a window that was wide then, or off.
    func signedAhead(_ db: Database) throws -> Int64 { try value(Self.aheadName, db) ?? 0 }

    func claimed(at time: Int64, signedAt signed: Int64, _ db: Database) throws {
        let ahead = signed - time
        // No claim is forgotten sooner than `retain_claims` allows, a minute: half of that is always seen to.
        guard ahead > 30_000, try ahead > signedAhead(db) else { return }
        try put(Self.aheadName, ahead, db)
    }

    /// Records up to it were written by a clock that was not believed later; 0 when there are none.
    func clockAcceptedAfter(_ db: Database) throws -> Int64 { try value(Self.acceptedName, db) ?? 0 }

    func newestClaim(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT max(claimed_at) FROM claim"))
    }

    func oldestClaim(_ db: Database) throws -> Int64? {
        try Int64.fetchOne(db.cachedStatement(sql: "SELECT min(claimed_at) FROM claim"))
    }

    /// Of claims and record the later: claims may be pruned, and a ledger of version 1 had no record. Repeats do not
    /// count, since they are not held against the window.
    func newestRelease(_ db: Database) throws -> Int64? {
        let recorded = try Int64.fetchOne(
            db,
            sql: """
                SELECT time FROM audit_record WHERE node = ? AND event = 'decrypt' AND outcome = 'ok'
                ORDER BY time DESC LIMIT 1
                """, arguments: [node])
        return [recorded, try newestClaim(db)].compactMap { $0 }.max()
    }

    /// Whether all claims were made at a time that there is: another one would move a fence out of all reach.
    static func areTimes(_ db: Database) throws -> Bool {
        try
            !(Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM claim WHERE claimed_at < 0 OR claimed_at > ?)",
                arguments: [AuditTime.latest.milliseconds]) ?? true)
    }

    /// Claims of tokens signed before its value may be gone.
    private static let forgottenName = "forgotten_before"
    /// Records up to this sequence were written by a clock that was not believed later.
    private static let acceptedName = "clock_accepted_after"

    private static let aheadName = "signed_ahead"

    private static let restoreFenceName = "restore_fence"

    private func value(_ name: String, _ db: Database) throws -> Int64? {
        try SQLiteLedgerMeta.value(name, db).flatMap { Int64($0) }
    }

    private func put(_ name: String, _ value: Int64, _ db: Database) throws {
        try SQLiteLedgerMeta.put(name, String(value), db)
    }
}
