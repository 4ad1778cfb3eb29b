import AuditChain
import DatabaseKit
import Foundation

/// The statements about the time: what is forgotten, and which times the ledger has seen.
struct SQLiteTimes {
    let node: String

    func times(_ db: any StoredQueries) throws -> LedgerTimes {
        let accepted = try clockAcceptedAfter(db)
        // From the newest time downwards, for which the plus sees to the index by time. What is passed over are the records
        // that a wrong clock wrote before it was accepted: usually none.
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

    /// Payment tokens that were signed before it are refused from now on where no claim is found. It never goes back.
    func raise(restoreFence fence: Int64, _ db: any StoredQueries) throws {
        try put(Self.restoreFenceName, max(fence, try value(Self.restoreFenceName, db) ?? fence), db)
    }

    /// Remembers that claims of payment tokens that were signed before `time` are not all here any more. A later configuration
    /// may accept such old tokens again, and the ledger could not tell whether they were released.
    func forget(signedBefore time: Int64, _ db: any StoredQueries) throws {
        try put(Self.forgottenName, max(time, try forgottenBefore(db) ?? time), db)
    }

    /// - Parameter sequence: of the acceptance's own record, the first that counts for the newest time from then on.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int, _ db: any StoredQueries) throws {
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
    func signedAhead(_ db: any StoredQueries) throws -> Int64 { try value(Self.aheadName, db) ?? 0 }

    func claimed(at time: Int64, signedAt signed: Int64, _ db: any StoredQueries) throws {
        let ahead = signed - time
        // No claim is forgotten sooner than `retain_claims` allows, a minute: half of that is always seen to.
        guard ahead > 30_000, try ahead > signedAhead(db) else { return }
        try put(Self.aheadName, ahead, db)
    }

    /// Records up to it were written by a clock that was not believed later; 0 when there are none.
    func clockAcceptedAfter(_ db: any StoredQueries) throws -> Int64 { try value(Self.acceptedName, db) ?? 0 }

    /// Whether all claims were made at a time that there is: another one would move a fence out of all reach.
    static func areTimes(_ db: any StoredQueries) throws -> Bool {
        try db.run(
            "SELECT claimed_at FROM claim WHERE claimed_at < 0 OR claimed_at > $1 LIMIT 1",
            [.integer(AuditTime.latest.milliseconds)]
        ).isEmpty
    }

    /// Claims of tokens signed before its value may be gone.
    private static let forgottenName = "forgotten_before"
    /// Records up to this sequence were written by a clock that was not believed later.
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
