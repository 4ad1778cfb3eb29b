import AuditChain
import DatabaseKit
import Foundation

/// The statements about time: the limits for forgotten claims, and the times that the ledger has recorded.
struct SQLiteTimes {
    let node: String

    func times(_ db: any StoredQueries) throws -> LedgerTimes {
        let accepted = try clockAcceptedAfter(db)
        // Reads in descending order of time; the plus makes SQLite use the index by time. It skips only the records of
        // a wrong clock that was later corrected, usually none.
        let newest = try db.number(
            "SELECT time FROM audit_record WHERE node = $1 AND +sequence > $2 ORDER BY time DESC LIMIT 1",
            [.text(node), .integer(accepted)])
        return LedgerTimes(
            newestRecord: newest.map(StoredTime.date), forgottenBefore: try forgottenBefore(db).map(StoredTime.date),
            restoreFence: try value(Self.restoreFenceName, db).map(StoredTime.date))
    }

    private func forgottenBefore(_ db: any StoredQueries) throws -> Int64? { try value(Self.forgottenName, db) }

    func limits(_ db: any StoredQueries) throws -> ReleaseLimits {
        ReleaseLimits(forgottenBefore: try forgottenBefore(db), restoreFence: try value(Self.restoreFenceName, db))
    }

    /// Raises the fence, before which payment tokens without a claim are refused. It is never lowered.
    func raise(restoreFence fence: Int64, _ db: any StoredQueries) throws {
        try put(Self.restoreFenceName, max(fence, try value(Self.restoreFenceName, db) ?? fence), db)
    }

    /// Records that claims of payment tokens signed before `time` may be missing. A later configuration may accept such
    /// old payment tokens again, and the ledger could not tell whether they were released.
    func forget(signedBefore time: Int64, _ db: any StoredQueries) throws {
        try put(Self.forgottenName, max(time, try forgottenBefore(db) ?? time), db)
    }

    /// - Parameter sequence: the record of the acceptance. Only records from there on count for the newest time.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int, _ db: any StoredQueries) throws {
        guard try forgottenBefore(db).map(StoredTime.date) == change.forgottenBefore else {
            throw LedgerFailure.timesConflict
        }
        if let servedFrom = change.servedFrom {
            try put(Self.forgottenName, StoredTime.milliseconds(servedFrom), db)
        }
        try put(Self.acceptedName, Int64(sequence - 1), db)
    }

    /// Returns the greatest lead, in milliseconds, of a released payment token's signing time, which Apple sets, over
    /// the clock at the claim. A large lead means that the clock was slow while a window was wide or off.
    func signedAhead(_ db: any StoredQueries) throws -> Int64 { try value(Self.aheadName, db) ?? 0 }

    func claimed(at time: Int64, signedAt signed: Int64, _ db: any StoredQueries) throws {
        let ahead = signed - time
        // `retain_claims` keeps every claim for at least a minute, so half of that is always covered.
        guard ahead > 30_000, try ahead > signedAhead(db) else { return }
        try put(Self.aheadName, ahead, db)
    }

    /// Returns the last sequence written with a clock that was later corrected; 0 if there is none.
    func clockAcceptedAfter(_ db: any StoredQueries) throws -> Int64 { try value(Self.acceptedName, db) ?? 0 }

    /// Returns true if all claims have valid times. An invalid one would move a fence to an unreachable time.
    static func areTimes(_ db: any StoredQueries) throws -> Bool {
        try db.run(
            "SELECT claimed_at FROM claim WHERE claimed_at < 0 OR claimed_at > $1 LIMIT 1",
            [.integer(AuditTime.latest.milliseconds)]
        ).isEmpty
    }

    /// The name of the time before which signed payment tokens may lack their claims.
    private static let forgottenName = "forgotten_before"
    /// The name of the last sequence written with a clock that was later corrected.
    private static let acceptedName = "clock_accepted_after"

    private static let aheadName = "signed_ahead"

    private static let restoreFenceName = "restore_fence"

    private func value(_ name: String, _ db: any StoredQueries) throws -> Int64? {
        try SQLiteLedgerMeta.value(name, db).flatMap { Int64($0) }
    }

    private func put(_ name: String, _ value: Int64, _ db: any StoredQueries) throws {
        try SQLiteLedgerMeta.put(name, String(value), db)
    }
}
