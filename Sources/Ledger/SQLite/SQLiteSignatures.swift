public import AuditChain
import GRDB

/// A signature inside the batch's transaction: the key's state and the record together.
struct SQLiteSignatures {
    let chain: SQLiteChain

    func decide(
        _ signature: SignatureUse, recording record: AuditRecord, _ head: inout ChainHead, _ db: Database,
        _ reads: TransactionReads
    ) throws -> SignatureDecision {
        var record = record
        let verdict = signature.verdict(try SQLiteKeyRecords.standing(signature.publicKeyHash, db, reads))
        record.outcome = verdict.outcome
        return SignatureDecision(verdict: verdict, line: try chain.append(record, to: &head, db))
    }

    /// After a commit that was not acknowledged: without its record a signature does not leave.
    func stands(_ decision: SignatureDecision, _ db: Database) throws -> SignatureDecision? {
        try decision.line.map { try chain.holds($0, db) } == true ? decision : nil
    }

    /// When nothing could be written: the refusal that the database alone justifies.
    func refusal(of signature: SignatureUse, _ db: Database) throws -> SignatureDecision? {
        let key = try SQLiteKeyRecords.standing(signature.publicKeyHash, db, TransactionReads())
        let verdict = signature.verdict(key)
        return verdict == .granted ? nil : SignatureDecision(verdict: verdict, line: nil)
    }
}

extension SQLiteLedger {
    public func record(
        _ signature: SignatureUse, recording record: AuditRecord
    ) async throws(LedgerFailure) -> RecordedSignature {
        let signatures = SQLiteSignatures(chain: chain)
        let decision = try await writer.write(
            keepsReads: true,
            { [reads] db, head in try signatures.decide(signature, recording: record, &head, db, reads) },
            readBack: { decision, db in try signatures.stands(decision, db) },
            refusal: { db in try signatures.refusal(of: signature, db) })
        return RecordedSignature(decision.verdict, sequence: decision.line?.sequence)
    }
}
