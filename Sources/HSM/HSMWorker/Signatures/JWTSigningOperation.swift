import Glibc
import PKCS11
import PortalRequests
import WorkerProtocol

extension OpenToken {
    /// Builds a JSON Web Token for one request to Apple's API, and signs it with a service key.
    ///
    /// No caller supplies a claim, a header or a hash. This process takes the issuer and the key's identifier from the
    /// configuration, and the times from its clock. So no request of the daemon leads to another token.
    ///
    /// - Returns: the token in compact form (RFC 7515 §7.1), whose signature was verified.
    func sign(
        _ request: JWTSigning, in session: inout Session, _ deadline: inout CallDeadline
    ) throws(WorkerFailure) -> [UInt8] {
        guard let key = PortalKeyName(issuer: opening.portalIssuer, keyId: opening.portalKeyId) else {
            throw WorkerFailure(.importRefused, "The configuration names no key of Apple's API.")
        }
        guard let name = PortalName(request.name) else {
            throw WorkerFailure(
                .importRefused, "A service key signs tokens for known requests only; the name has other characters.")
        }
        var isSecond = false
        while true {
            let entry = try borrow(request.publicKeyHash, for: .service, in: &session)
            defer { keys.giveBack(request.publicKeyHash) }
            let token = JSONWebToken(
                key, for: PortalRequest(request.kind, of: name), scope: request.scope, now: time(nil))
            do throws(CallError) {
                let signature = try keyUses.reading { () throws(CallError) in
                    let signature = try JWTSignatures.sign(token.signingInput, with: entry, in: &session)
                    if signature != nil { countUse(of: entry) }
                    return signature
                }
                if let signature { return token.signed(signature) }
            } catch {
                guard error.isStaleHandle, !isSecond else {
                    let kind: WorkerFailure.Kind =
                        error.isBusy
                        ? .overloaded
                        : error.isUnrelatedToKey || error.isStaleHandle ? .hsmTokenUnavailable : .importRefused
                    throw WorkerFailure(kind, "The JSON Web Token cannot be signed: \(error).")
                }
                isSecond = true
                try findAgain(entry, error, &session, &deadline)
                continue
            }
            throw WorkerFailure(
                .importRefused, "The HSM token's signature does not verify under the key's own public key.")
        }
    }
}
