import AuditChain
package import DatabaseKit
import Foundation
import GRDB
package import Ledger
import Locks
import MerchantKeys
import PaymentToken

/// Decides on releases and signatures inside a batch's transaction. The transaction reads the key's state, and writes
/// the claim and the record.
struct SQLiteUses {
    let records: RecordStatements
    let repeatFor: Duration
    let claimFilter: ClaimFilter
    private var times: SQLiteTimes { SQLiteTimes(node: records.node.name) }

    // MARK: Releases

    func decide(
        _ release: Release, recording record: AuditRecord?, _ head: inout ChainHead, _ db: Database,
        _ reads: TransactionReads
    ) throws -> ReleaseDecision {
        let verdict = try decide(release, db, reads)
        let isUsedUp = try verdict.isLast { try self.isUsedUp(release, db) }
        guard var record else { return ReleaseDecision(verdict: verdict, line: nil, isUsedUp: isUsedUp) }
        record.outcome = verdict.outcome
        return ReleaseDecision(verdict: verdict, line: try db.append(record, to: &head), isUsedUp: isUsedUp)
    }

    private func decide(_ release: Release, _ db: Database, _ reads: TransactionReads) throws -> ReleaseVerdict {
        guard try reads.key(release.publicKeyHash, db)?.decrypts(for: release.wallet, at: release.at) == true else {
            return .keyNotActive
        }
        let refusal = try release.refusalOfFirstRelease { try reads.limits { try times.limits(db) } }
        if refusal == nil, try insert(release, db) { return .released }
        guard let claim = try ClaimRow.find(release.transactionId, db) else { return refusal ?? .replayed }
        let repeatability = claim.repeatability(of: release, within: repeatFor)
        if repeatability == .yes { try countRepeat(release, by: release.attempt, db) }
        return repeatability.verdict
    }

    /// Returns the decision if exactly this attempt is found after an unacknowledged commit. A release without its
    /// record does not count, even if the claim exists.
    func committedDecision(_ decision: ReleaseDecision, _ release: Release, _ db: Database) throws -> ReleaseDecision? {
        if let line = decision.line { return try records.holds(line, db) ? decision : nil }
        let claim = try ClaimRow.find(release.transactionId, db)
        let isCommitted =
            switch decision.verdict {
            case .released: claim?.attempt == release.attempt
            case .repeated: claim?.repeatAttempt == release.attempt
            // A refusal without a record leaves nothing in the ledger by which its commit could be found. The refusal
            // is valid if the release would be refused in the same way now.
            case .replayed, .keyNotActive, .repeatedTooOften, .releasedByOther, .forgotten, .beforeRestore, .held:
                try refusal(of: release, db)?.verdict == decision.verdict
            }
        return isCommitted ? decision : nil
    }

    /// Returns the refusal that follows from the database alone, for use when nothing could be written. The caller then
    /// receives the refusal's code although the refusal is not recorded.
    func refusal(of release: Release, _ db: Database) throws -> ReleaseDecision? {
        release.refusal(
            try TransactionReads().key(release.publicKeyHash, db), try ClaimRow.find(release.transactionId, db),
            within: repeatFor, try times.limits(db)
        ).map { ReleaseDecision(verdict: $0, line: nil) }
    }

    /// Counts a repeat that was decrypted and then refused because of the payment data.
    ///
    /// - Returns: true if no further repeat is possible.
    func countRefusedRepeat(_ release: Release, _ db: Database) throws -> Bool {
        let claim = try ClaimRow.find(release.transactionId, db)
        if claim?.repeatability(of: release, within: repeatFor) == .yes { try countRepeat(release, by: nil, db) }
        return try isUsedUp(release, db)
    }

    private func isUsedUp(_ release: Release, _ db: Database) throws -> Bool {
        try ClaimRow.find(release.transactionId, db)?.isUsedUp ?? false
    }

    /// Inserts the claim and returns true. Returns false, and inserts nothing, if either of its names is already claimed.
    private func insert(_ release: Release, _ db: Database) throws -> Bool {
        if release.wallet == .googlePay { claimFilter.insert(release.transactionId) }
        try db.run(
            """
            INSERT INTO claim (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt,
                claimed_at, node, message_claim)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT DO NOTHING
            """,
            [
                .bytes(release.transactionId.bytes), .bytes(release.publicKeyHash.bytes), .text(release.caller),
                .bytes(release.referenceDigest), .bytes(release.contentDigest), .bytes(release.attempt),
                .time(release.at), .text(records.node.name), .bytes(release.messageClaim?.bytes),
            ])
        guard db.changesCount == 1 else { return false }
        if let signedAt = release.signedAt {
            try times.claimed(
                at: StoredTime.milliseconds(release.at), signedAt: StoredTime.milliseconds(signedAt), db)
        }
        return true
    }

    /// - Parameter attempt: the released attempt; nil for a repeat that is counted but refused, so that the last
    ///   release is unchanged.
    private func countRepeat(_ release: Release, by attempt: [UInt8]?, _ db: Database) throws {
        try db.run(
            """
            UPDATE claim SET repeats = repeats + 1, repeat_attempt = coalesce($1, repeat_attempt), repeated_at = $2
            WHERE transaction_id = $3
            """, [.bytes(attempt), .time(release.at), .bytes(release.transactionId.bytes)])
    }

    // MARK: Signatures

    func decide(
        _ signature: SignatureUse, recording record: AuditRecord, _ head: inout ChainHead, _ db: Database,
        _ reads: TransactionReads
    ) throws -> SignatureDecision {
        var record = record
        let verdict = signature.verdict(try reads.key(signature.publicKeyHash, db))
        record.outcome = verdict.outcome
        return SignatureDecision(verdict: verdict, line: try db.append(record, to: &head))
    }

    /// Returns the decision if its record is found after an unacknowledged commit. Without the record, the signature
    /// must not leave the process.
    func committedDecision(_ decision: SignatureDecision, _ db: Database) throws -> SignatureDecision? {
        try decision.line.map { try records.holds($0, db) } == true ? decision : nil
    }

    /// Returns the refusal that follows from the database alone, for use when nothing could be written.
    func refusal(of signature: SignatureUse, _ db: Database) throws -> SignatureDecision? {
        let verdict = signature.verdict(try TransactionReads().key(signature.publicKeyHash, db))
        return verdict == .granted ? nil : SignatureDecision(verdict: verdict, line: nil)
    }
}

/// A cache of the rows that all releases of one transaction read: the state of their keys, and the release limits. No
/// other connection writes during the transaction, so a cached row stays valid until one of the transaction's own
/// writes may change it.
///
/// The writer clears the cache when a transaction begins, and after every write except those known to leave these rows
/// unchanged.
final class TransactionReads: Sendable {
    private struct State {
        var keys: [PublicKeyHash: KeyEligibility?] = [:]
        var limits: ReleaseLimits?
    }

    private let state = Mutex(State())

    func forget() {
        state.withLock { $0 = State() }
    }

    /// Returns the key's state and use, which decide whether the key may be used now; nil if the ledger does not know
    /// the key.
    fileprivate func key(_ hash: PublicKeyHash, _ db: Database) throws -> KeyEligibility? {
        try state.withLock { state in
            if let known = state.keys[hash] { return known }
            let found = try KeyEligibilityRow.find(hash, db)
            state.keys[hash] = .some(found)
            return found
        }
    }

    fileprivate func limits(_ read: () throws -> ReleaseLimits) throws -> ReleaseLimits {
        try state.withLock { state in
            if let known = state.limits { return known }
            let found = try read()
            state.limits = found
            return found
        }
    }
}

extension Database {
    /// Appends a record to the chain and stores its line. The caller has read `head` in the same
    /// transaction. This method changes `head` only once the line is stored.
    func append(_ record: AuditRecord, to head: inout ChainHead) throws -> AuditLine {
        var next = head
        let line = next.append(record)
        try run(
            """
            INSERT INTO audit_record (node, sequence, time, event, outcome, caller, caller_uid, merchant,
                public_key_hash, transaction_id, hash, line)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            """,
            [
                .text(line.node.name), .integer(line.sequence), .integer(record.time.milliseconds),
                .text(record.event.name.rawValue), .text(record.outcome.text), .text(record.caller?.name?.text),
                .integer(record.caller.map { Int64($0.uid) }), .text(record.merchant?.text),
                .bytes(record.publicKeyHash?.bytes), .bytes(record.transactionId?.bytes), .bytes(line.hash.bytes),
                .bytes(line.bytes),
            ])
        head = next
        return line
    }
}

/// Reads and writes the times that a ledger stores, such as the signing times before which payment tokens without a
/// claim are refused.
package struct SQLiteTimes {
    let node: String

    package init(node: String) { self.node = node }

    func times(_ db: any StoredQueries) throws -> LedgerTimes {
        let accepted = try clockAcceptedAfter(db)
        // The plus sign keeps SQLite from using the index by sequence. SQLite instead reads the index by time from the
        // newest record backwards, and usually needs only one record. After a fast clock was corrected, SQLite first
        // skips the records that were written with the fast clock.
        let newest = try db.number(
            "SELECT time FROM audit_record WHERE node = $1 AND +sequence > $2 ORDER BY time DESC LIMIT 1",
            [.text(node), .integer(accepted)])
        return LedgerTimes(
            newestRecord: newest.map(StoredTime.date), forgottenBefore: try forgottenBefore(db).map(StoredTime.date),
            restoreFence: try value(Self.restoreFenceName, db).map(StoredTime.date))
    }

    private func forgottenBefore(_ db: any StoredQueries) throws -> Int64? { try value(Self.forgottenName, db) }

    package func limits(_ db: any StoredQueries) throws -> ReleaseLimits {
        ReleaseLimits(forgottenBefore: try forgottenBefore(db), restoreFence: try value(Self.restoreFenceName, db))
    }

    /// Moves the fence to `fence` if that time is later than the present fence. Payment tokens that were signed before
    /// the fence and have no claim are refused.
    func advance(restoreFence fence: Int64, _ db: any StoredQueries) throws {
        try put(Self.restoreFenceName, max(fence, try value(Self.restoreFenceName, db) ?? fence), db)
    }

    /// Records that claims of payment tokens signed before `time` may be missing. Payment tokens of that age without a
    /// claim are then refused. Otherwise a later configuration with a wider window could accept one that was already
    /// released.
    func forget(signedBefore time: Int64, _ db: any StoredQueries) throws {
        try put(Self.forgottenName, max(time, try forgottenBefore(db) ?? time), db)
    }

    /// - Parameter sequence: the sequence of the acceptance's record. Earlier records no longer count for
    ///   ``LedgerTimes/newestRecord``.
    func accept(_ change: AdministrativeChange.ClockChange, at sequence: Int, _ db: any StoredQueries) throws {
        guard try forgottenBefore(db).map(StoredTime.date) == change.forgottenBefore else {
            throw LedgerFailure.timesConflict
        }
        if let servedFrom = change.servedFrom {
            try put(Self.forgottenName, StoredTime.milliseconds(servedFrom), db)
        }
        try put(Self.acceptedName, Int64(sequence - 1), db)
    }

    /// Returns the greatest lead, in milliseconds, of a released payment token's signing time over the time of its
    /// claim; 0 if no lead was stored. Apple sets the signing time, and this host's clock sets the claim's time. A
    /// large lead therefore shows that the clock was slow while a signing-time window was wide or off.
    package func signedAhead(_ db: any StoredQueries) throws -> Int64 { try value(Self.aheadName, db) ?? 0 }

    func claimed(at time: Int64, signedAt signed: Int64, _ db: any StoredQueries) throws {
        let ahead = signed - time
        // Do not store a lead of up to 30 seconds. Every claim is kept for at least a minute (`retain_claims`), and
        // pruning always allows for a lead of half that time.
        guard ahead > 30_000, try ahead > signedAhead(db) else { return }
        try put(Self.aheadName, ahead, db)
    }

    /// Returns the sequence of the last record before the newest accepted correction of the clock; 0 if no correction
    /// was accepted.
    package func clockAcceptedAfter(_ db: any StoredQueries) throws -> Int64 { try value(Self.acceptedName, db) ?? 0 }

    /// Returns true if the times of all claims are in the valid range. A time outside that range could set a fence that
    /// no payment token ever passes.
    package static func areValid(_ db: any StoredQueries) throws -> Bool {
        try db.run(
            "SELECT claimed_at FROM claim WHERE claimed_at < 0 OR claimed_at > $1 LIMIT 1",
            [.integer(AuditTime.latest.milliseconds)]
        ).isEmpty
    }

    /// The name, in the table `ledger_meta`, of the signing time before which payment tokens may lack their claims.
    private static let forgottenName = "forgotten_before"
    /// The name, in the table `ledger_meta`, of the sequence that ``clockAcceptedAfter(_:)`` returns.
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
