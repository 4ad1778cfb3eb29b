import AuditChain
import DaemonAPI
import Ledger
import Refusals

extension UseCommit {
    /// Records a signature that the HSM has made. The transaction also checks that the key is active.
    ///
    /// - Returns: the record's place. The signature may leave the daemon only then.
    func record(
        _ signature: SignatureUse, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> AuditReference {
        let outcome = try await make(of: draft, by: caller, refusal: \.signatureRefusal) {
            (ledger, auditRecord) async throws(LedgerFailure) in
            let recorded = try await ledger.record(signature, recording: auditRecord)
            return (recorded.verdict, recorded.sequence)
        }
        switch outcome.verdict {
        case .granted:
            guard !outcome.isTooLate else {
                throw Refusal(
                    .ledgerUnavailable, "The signature was recorded, but too late for an answer; sign again.")
            }
            guard let audit = outcome.audit else { throw .defect }
            return audit
        case .held:
            throw Refusal(
                .ledgerUnavailable,
                "No host signs at present, because the ledger may be an older copy; GET /v1/status says what to do.")
        case .keyNotActive:
            throw Refusal(.keyNotActive, "The key's state was changed; the key no longer signs.")
        }
    }
}
