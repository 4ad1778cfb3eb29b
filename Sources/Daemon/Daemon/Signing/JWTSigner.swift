import AuditChain
import DaemonAPI
import Foundation
import Ledger
import MerchantKeys
import PortalRequests
import Refusals
import WorkerProtocol
import WorkerSupervision

/// Has JSON Web Tokens for Apple's App Store Connect API signed by the configured service key.
///
/// The caller chooses no claim: the worker builds the token for a request of a closed set. The transaction that records
/// the signature also checks that the key is active. A token whose record is not durable does not leave the daemon.
struct JWTSigner: Sendable {
    let keys: KeyIndex
    let hsm: HSMTokenPool
    let renewal: RenewalSettings
    let commit: UseCommit
    let clock: WallClock

    private var faults: FaultLog { commit.faults }

    /// Signs a token for one read.
    ///
    /// - Parameter draft: collects the facts for the audit record as they become known.
    /// - Returns: the token in compact form (RFC 7515 §7.1), which is a secret for as long as it is valid.
    func sign(
        _ work: PortalReads.Work, for caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> String {
        draft.setSubject(merchant: work.merchant)
        draft.setEvent(
            .jwtSignature(
                JWTSignatureDetails(
                    access: .read, request: AuditText(work.scope.text(for: work.request)),
                    keyId: AuditText(renewal.keyId))))
        guard let key = serviceKey() else {
            throw Refusal(
                .keyNotActive, "No service key is active under the configured key id; import it first.",
                details: renewal.keyId)
        }
        draft.setSubject(key: key.publicKeyHash)
        guard key.condition == .served else {
            throw Refusal(
                .hsmUnavailable, "The ledger has the service key, but no HSM token lists it at present.",
                details: "GET /v1/status says why")
        }
        try commit.gate.admit()
        let signed: (token: [UInt8], hsmToken: String)
        draft.mayHaveReachedHSM(true)
        do {
            signed = try await hsm.sign(
                JWTSigning(publicKeyHash: key.publicKeyHash.bytes, request: work.request, scope: work.scope),
                heldBy: key.hsmTokens, for: Requester(caller))
            faults.ended(Self.hsmComponent)
        } catch {
            draft.mayHaveReachedHSM(!error.isUnsent)
            faults.began(Self.hsmComponent, error.message)
            throw error.signatureRefusal
        }
        draft.used(hsmToken: signed.hsmToken)
        _ = try await commit.record(
            SignatureUse(publicKeyHash: key.publicKeyHash, use: .service, at: clock.now()), by: caller, draft: draft)
        keys.countUse(key.publicKeyHash, at: clock.now())
        commit.instruments.keyUses.increment([key.publicKeyHash.hex])
        return String(decoding: signed.token, as: UTF8.self)
    }

    private func serviceKey() -> KeyEntry? {
        keys.entries.first {
            $0.use == .service && $0.merchantIdentifier == renewal.keyId && $0.state == .active
        }
    }

    /// The component name, in fault log lines, for the HSM's signatures of JSON Web Tokens.
    private static let hsmComponent = "hsm jwt signatures"
}
