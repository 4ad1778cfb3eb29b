import AuditChain
import GRDB
import Refusals

/// A release inside the batch's transaction: the key's state, the claim and the record together.
struct SQLiteReleases {
    let claims: SQLiteClaims
    let chain: SQLiteChain

    struct Decision: Sendable {
        let verdict: ReleaseVerdict
        let line: AuditLine?
        /// There is no further repeat of this transaction.
        var isUsedUp = false
    }

    func decide(
        _ release: Release, recording record: AuditRecord?, _ head: inout ChainHead, _ db: Database
    ) throws -> Decision {
        let verdict = try claims.decide(release, db)
        let isUsedUp =
            switch verdict {
            case .repeated: try claims.isUsedUp(release, db)
            case .repeatedTooOften: true
            case .released, .replayed, .keyNotActive, .forgotten: false
            }
        guard var record else { return Decision(verdict: verdict, line: nil, isUsedUp: isUsedUp) }
        record.outcome = verdict.outcome
        return Decision(verdict: verdict, line: try chain.append(record, to: &head, db), isUsedUp: isUsedUp)
    }

    /// After a commit that was not acknowledged: what stands of this very attempt. Without its record a release is
    /// none, whatever became of the claim.
    func stands(_ decision: Decision, _ release: Release, _ db: Database) throws -> Decision? {
        if let line = decision.line { return try chain.holds(line, db) ? decision : nil }
        return try claims.stands(decision.verdict, release, db) ? decision : nil
    }

    /// When nothing could be written: the refusal that the database alone justifies, which has its own code without
    /// its record too.
    func refusal(of release: Release, _ db: Database) throws -> Decision? {
        try claims.refusal(of: release, db).map { Decision(verdict: $0, line: nil) }
    }
}
