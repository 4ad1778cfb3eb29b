import AuditChain
import DaemonAPI
import DaemonConfiguration
import KeyTypes
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Has the HSM sign, and records each signature before it leaves the daemon. ``TLSSigner`` and ``JWTSigner`` check the
/// request first.
struct RecordedSignatures: Sendable {
    let keys: KeyIndex
    let hsm: HSMTokenPool
    let commit: UseCommit
    let instruments: Instruments
    let clock: WallClock

    /// Makes one signature. The transaction that records it also checks that the key is active.
    ///
    /// - Parameters:
    ///   - draft: collects the facts for the audit record as they become known.
    ///   - call: the call that has the HSM sign. Returns the signature, or the signed token, and the name of the HSM token.
    /// - Returns: what `call` returned, and the record's place.
    func make(
        with key: PublicKeyHash, for use: KeyUse, by caller: Caller, draft: AuditDraft,
        _ call: (HSMTokenPool, Requester) async throws(WorkerFailure) -> ([UInt8], String)
    ) async throws(Refusal) -> (signed: [UInt8], audit: AuditReference) {
        try commit.gate.admit()
        let component = Self.component(use)
        let (signed, hsmToken): ([UInt8], String)
        draft.mayHaveReachedHSM(true)
        do {
            (signed, hsmToken) = try await call(hsm, Requester(caller))
            commit.recorder.faults.ended(component)
        } catch {
            draft.mayHaveReachedHSM(!error.isUnsent)
            commit.recorder.faults.began(component, error.message)
            throw error.signatureRefusal
        }
        draft.used(hsmToken: hsmToken)
        let audit = try await record(
            SignatureUse(publicKeyHash: key, use: use, at: clock.now()), by: caller, draft: draft)
        keys.countUse(key, at: clock.now())
        instruments.keyUses.increment([key.hex])
        return (signed, audit)
    }

    /// Records a signature that the HSM has made.
    private func record(
        _ signature: SignatureUse, by caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> AuditReference {
        let outcome = try await commit.make(of: draft, by: caller, refusal: \.signatureRefusal) {
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

    /// The component name, in fault log lines, for the HSM's signatures.
    private static func component(_ use: KeyUse) -> String {
        use == .service ? "hsm jwt signatures" : "hsm signatures"
    }
}
