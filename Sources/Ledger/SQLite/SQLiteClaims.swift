import AuditChain
import Foundation
import GRDB
import MerchantKeys
import PaymentToken
import Refusals
import SQLiteFiles
import Synchronization

/// A release inside the batch's transaction: the key's state, the claim and the record together.
struct SQLiteReleases {
    let claims: SQLiteClaims
    let chain: SQLiteChain

    func decide(
        _ release: Release, recording record: AuditRecord?, _ head: inout ChainHead, _ db: Database,
        _ reads: TransactionReads = TransactionReads()
    ) throws -> ReleaseDecision {
        let verdict = try claims.decide(release, db, reads)
        let isUsedUp =
            switch verdict {
            case .repeated: try claims.isUsedUp(release, db)
            case .repeatedTooOften: true
            case .released, .replayed, .releasedByOther, .keyNotActive, .forgotten, .beforeRestore, .held: false
            }
        guard var record else { return ReleaseDecision(verdict: verdict, line: nil, isUsedUp: isUsedUp) }
        record.outcome = verdict.outcome
        return ReleaseDecision(verdict: verdict, line: try chain.append(record, to: &head, db), isUsedUp: isUsedUp)
    }

    /// After a commit that was not acknowledged: what stands of this very attempt. Without its record a release is
    /// none, whatever became of the claim.
    func stands(_ decision: ReleaseDecision, _ release: Release, _ db: Database) throws -> ReleaseDecision? {
        if let line = decision.line { return try chain.holds(line, db) ? decision : nil }
        return try claims.stands(decision.verdict, release, db) ? decision : nil
    }

    /// When nothing could be written: the refusal that the database alone justifies, which has its own code without
    /// its record too.
    func refusal(of release: Release, _ db: Database) throws -> ReleaseDecision? {
        try claims.refusal(of: release, db).map { ReleaseDecision(verdict: $0, line: nil) }
    }
}

/// The claims' statements. All run inside a transaction of the caller's.
struct SQLiteClaims {
    let node: String
    let repeatFor: Duration

    /// Decides one release and writes its claim.
    func decide(
        _ release: Release, _ db: Database, _ reads: TransactionReads = TransactionReads()
    ) throws -> ReleaseVerdict {
        guard try keyDecrypts(release, db, reads) else { return .keyNotActive }
        let refusal = try refusalOfNew(release, db, reads)
        if refusal == nil, try insert(release, db) { return .released }
        guard let claim = try claim(release, db) else { return refusal ?? .replayed }
        let repeatability = claim.repeatability(of: release, within: repeatFor)
        if repeatability == .yes { try countRepeat(release, by: release.attempt, db) }
        return repeatability.verdict
    }

    func wouldRepeat(_ release: Release, _ db: Database) throws -> Repeatability {
        try claim(release, db)?.repeatability(of: release, within: repeatFor) ?? .no
    }

    /// Counts one that was opened and refused before it came to ``decide(_:_:)``.
    func countRefusedRepeat(_ release: Release, _ db: Database) throws {
        if try wouldRepeat(release, db) == .yes { try countRepeat(release, by: nil, db) }
    }

    /// Whether a repeat that has just been counted was the last.
    func isUsedUp(_ release: Release, _ db: Database) throws -> Bool {
        try claim(release, db)?.isUsedUp ?? false
    }

    /// Whether `verdict` of this very attempt stands in the database, after its commit went unacknowledged.
    func stands(_ verdict: ReleaseVerdict, _ release: Release, _ db: Database) throws -> Bool {
        switch verdict {
        case .released: try claim(release, db)?.attempt == release.attempt
        case .repeated: try claim(release, db)?.repeatAttempt == release.attempt
        // Nothing was to be written, so it holds when it would be decided so again.
        case .replayed, .keyNotActive, .repeatedTooOften, .releasedByOther, .forgotten, .beforeRestore, .held:
            try refusal(of: release, db) == verdict
        }
    }

    /// The refusal that the release meets now; nil when it would be released. Reads only.
    func refusal(of release: Release, _ db: Database) throws -> ReleaseVerdict? {
        guard try keyDecrypts(release, db, TransactionReads()) else { return .keyNotActive }
        guard let claim = try claim(release, db) else { return try refusalOfNew(release, db, TransactionReads()) }
        let repeatability = claim.repeatability(of: release, within: repeatFor)
        return repeatability == .yes ? nil : repeatability.verdict
    }

    /// At most `limit` claims made before `time`; answers how many were removed.
    func prune(before time: Int64, limit: Int, _ db: Database) throws -> Int {
        try db.cachedStatement(
            sql: """
                DELETE FROM claim WHERE transaction_id IN
                (SELECT transaction_id FROM claim WHERE claimed_at < ? ORDER BY claimed_at LIMIT ?)
                """
        ).execute(arguments: [time, limit])
        return db.changesCount
    }

    /// Why a transaction that is not claimed must not be claimed now; nil when it may.
    private func refusalOfNew(
        _ release: Release, _ db: Database, _ reads: TransactionReads
    ) throws -> ReleaseVerdict? {
        try release.refusalOfNew {
            try reads.limits { try SQLiteTimes(node: node).limits(db) }
        }
    }

    /// Claims and signatures since `time`, by key.
    func usage(since time: Int64, _ db: Database) throws -> [PublicKeyHash: KeyUses] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT public_key_hash, count(*) AS uses, max(claimed_at) AS last FROM claim
                    WHERE claimed_at >= ? GROUP BY public_key_hash
                    UNION ALL
                    SELECT public_key_hash, count(*) AS uses, max(time) AS last FROM audit_record
                    WHERE event = 'tls_signature' AND outcome = 'ok' AND time >= ? GROUP BY public_key_hash
                    """),
            arguments: [time, time])
        var usage: [PublicKeyHash: KeyUses] = [:]
        for row in rows {
            guard let hash = PublicKeyHash(bytes: try row.value("public_key_hash") as Data) else { continue }
            usage[hash] = KeyUses(count: try row.value("uses"), last: StoredTime.date(try row.value("last")))
        }
        return usage
    }

    func wasUsed(_ key: PublicKeyHash, since time: Int64, _ db: Database) throws -> Bool {
        // The newest first: a key in use is found at once.
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT 1 AS found FROM claim WHERE claimed_at >= ? AND public_key_hash = ?
                    ORDER BY claimed_at DESC LIMIT 1
                    """),
            arguments: [time, key.bytes.blob]) != nil || hasSigned(key, since: time, db)
    }

    private func hasSigned(_ key: PublicKeyHash, since time: Int64, _ db: Database) throws -> Bool {
        try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT 1 AS found FROM audit_record
                    WHERE event = 'tls_signature' AND outcome = 'ok' AND public_key_hash = ? AND time >= ? LIMIT 1
                    """),
            arguments: [key.bytes.blob, time]) != nil
    }

    private func keyDecrypts(_ release: Release, _ db: Database, _ reads: TransactionReads) throws -> Bool {
        try SQLiteKeyRecords.standing(release.publicKeyHash, db, reads)?.decrypts(at: release.at) ?? false
    }

    /// False when the transaction is claimed already.
    private func insert(_ release: Release, _ db: Database) throws -> Bool {
        try db.run(
            """
            INSERT INTO claim (transaction_id, public_key_hash, caller, reference_digest, content_digest, attempt,
                claimed_at, node)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (transaction_id) DO NOTHING
            """,
            .blob(release.transactionId.bytes), .blob(release.publicKeyHash.bytes), .text(release.caller),
            .blob(optional: release.referenceDigest), .blob(release.contentDigest), .blob(release.attempt),
            .integer(StoredTime.milliseconds(release.at)), .text(node))
        guard db.changesCount == 1 else { return false }
        if let signedAt = release.signedAt {
            try SQLiteTimes(node: node).claimed(
                at: StoredTime.milliseconds(release.at), signedAt: StoredTime.milliseconds(signedAt), db)
        }
        return true
    }

    private func claim(_ release: Release, _ db: Database) throws -> Claim? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT caller, reference_digest, content_digest, attempt, repeat_attempt, claimed_at, repeats
                    FROM claim WHERE transaction_id = ?
                    """),
            arguments: [release.transactionId.bytes.blob])
        guard let row else { return nil }
        let reference: Data? = try row.value("reference_digest")
        let repeatAttempt: Data? = try row.value("repeat_attempt")
        return Claim(
            caller: try row.value("caller"), referenceDigest: reference.map { Array($0) },
            contentDigest: Array(try row.value("content_digest") as Data),
            attempt: Array(try row.value("attempt") as Data), repeatAttempt: repeatAttempt.map { Array($0) },
            claimedAt: try row.value("claimed_at"), repeats: try row.value("repeats"))
    }

    /// - Parameter attempt: the one that is released; nil for one that is counted and refused, after which the last release
    ///   is the same as before.
    private func countRepeat(_ release: Release, by attempt: [UInt8]?, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                UPDATE claim SET repeats = repeats + 1, repeat_attempt = coalesce(?, repeat_attempt), repeated_at = ?
                WHERE transaction_id = ?
                """
        ).execute(arguments: [
            attempt?.blob, StoredTime.milliseconds(release.at), release.transactionId.bytes.blob,
        ])
    }
}

/// What the releases of one transaction all read: the state of their keys, and what is forgotten. Nobody else writes while
/// the transaction is open, so it is read once and stays true until one of the transaction's own writes may change it.
///
/// The writer forgets it when a transaction begins, and after every write that does not say that it keeps it.
final class TransactionReads: Sendable {
    private struct State {
        var keys: [PublicKeyHash: KeyStanding?] = [:]
        var limits: ReleaseLimits?
    }

    private let state = Mutex(State())

    func forget() {
        state.withLock { $0 = State() }
    }

    /// - Parameter read: nil for a key of which there is no record.
    func key(_ hash: PublicKeyHash, _ read: () throws -> KeyStanding?) throws -> KeyStanding? {
        try state.withLock { state in
            if let known = state.keys[hash] { return known }
            let found = try read()
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

extension [UInt8] {
    var blob: Data { Data(self) }
}
