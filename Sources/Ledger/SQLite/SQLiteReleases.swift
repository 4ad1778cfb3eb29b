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
    }

    func decide(
        _ release: Release, recording record: AuditRecord?, _ head: inout ChainHead, _ db: Database
    ) throws -> Decision {
        let verdict = try claims.decide(release, db)
        guard var record else { return Decision(verdict: verdict, line: nil) }
        record.outcome = verdict.outcome
        return Decision(verdict: verdict, line: try chain.append(record, to: &head, db))
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
