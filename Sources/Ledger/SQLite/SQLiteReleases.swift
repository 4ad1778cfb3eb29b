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

        var judged: JudgedRelease { JudgedRelease(verdict, sequence: line?.sequence) }
    }

    func decide(
        _ release: Release, recording record: AuditRecord?, _ head: inout ChainHead, _ db: Database
    ) throws -> Decision {
        let verdict = try claims.decide(release, db)
        guard var record else { return Decision(verdict: verdict, line: nil) }
        record.outcome = verdict.outcome
        return Decision(verdict: verdict, line: try chain.append(record, to: &head, db))
    }

    /// After a commit that was not acknowledged: what stands of this very attempt.
    ///
    /// Nothing released is answered on a guess. A refusal is given when the database alone justifies it now, with its
    /// record or without.
    func stands(_ decision: Decision, _ release: Release, _ db: Database) throws -> Decision? {
        if let line = decision.line, try chain.holds(line, db) { return decision }
        guard try claims.stands(decision.verdict, release, db) else { return nil }
        switch decision.verdict {
        case .released, .repeated:
            // Without its record it is no release, whatever became of the claim.
            return decision.line == nil ? decision : nil
        case .replayed, .keyNotActive:
            return Decision(verdict: decision.verdict, line: nil)
        }
    }
}
