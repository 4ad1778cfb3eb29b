import AuditChain
import DaemonAPI
import DaemonConfiguration
import Foundation
import Ledger
import MerchantKeys
import PortalRequests
import Refusals
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Has JSON Web Tokens for Apple's App Store Connect API signed by the configured service key.
///
/// The caller chooses no claim: the worker builds the token for a request of a closed set. The transaction that records
/// the signature also checks that the key is active. A token whose record is not durable does not leave the daemon.
struct JWTSigner: Sendable {
    let signatures: RecordedSignatures
    let renewal: RenewalSettings

    /// Signs a token for one request.
    ///
    /// The token for a write has every right of the team's key. So the key whose certificate is created or activated is
    /// checked directly before.
    ///
    /// - Parameter draft: collects the facts for the audit record as they become known.
    /// - Returns: the token in compact form (RFC 7515 §7.1), which is a secret for as long as it is valid.
    func sign(_ work: OutboundWork, for caller: Caller, draft: AuditDraft) async throws(Refusal) -> String {
        draft.setSubject(merchant: work.merchant)
        draft.setEvent(
            .jwtSignature(
                JWTSignatureDetails(
                    access: work.access,
                    request: AuditText((work.scope ?? .versioned).text(for: work.request)),
                    keyId: AuditText(renewal.keyId))))
        if case .write(let write) = work.purpose {
            try write.check(in: signatures.keys)
            // The index may not know yet that another node has suspended the key.
            let known = try await refusing(
                ledger: await signatures.commit.recorder.ledger.keyRecord(write.publicKeyHash))
            try write.check(known)
        }
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
        let (token, _) = try await signatures.make(
            with: key.publicKeyHash, for: .service, by: caller, draft: draft
        ) { (hsm, requester) async throws(WorkerFailure) in
            try await hsm.sign(
                JWTSigning(publicKeyHash: key.publicKeyHash.bytes, request: work.request, scope: work.scope),
                heldBy: key.hsmTokens, for: requester)
        }
        return String(decoding: token, as: UTF8.self)
    }

    private func serviceKey() -> KeyEntry? {
        signatures.keys.entries.first {
            $0.use == .service && $0.merchantIdentifier == renewal.keyId && $0.state == .active
        }
    }
}

extension OutboundWork {
    /// The token's rights, for the record.
    fileprivate var access: JWTSignatureDetails.Access {
        guard case .write(let write) = purpose, let certified = AuditDigest(bytes: write.publicKeyHash.bytes) else {
            return .read
        }
        return .write(
            PortalWriteDetails(
                appleId: AuditText(write.request.name), certifiedKey: certified,
                csr: write.request.new.map { .of($0.csr) }, attempt: write.attempt, approval: write.approval))
    }
}
