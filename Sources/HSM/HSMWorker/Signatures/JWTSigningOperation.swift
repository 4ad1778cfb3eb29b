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
        guard let right = TokenRight(request.kind, of: request.name, scope: request.scope) else {
            throw WorkerFailure(
                .importRefused,
                "A service key signs tokens for known requests only; the name or the scope has another form.")
        }
        return try sign(with: request.publicKeyHash, for: .service, in: &session, &deadline) {
            (entry, session) throws(CallError) in
            // Each attempt has the present times, since a busy HSM token may take seconds.
            let token = JSONWebToken(key, for: right, now: time(nil))
            return try JWTSignatures.sign(token.signingInput, with: entry, in: &session).map(token.signed)
        }
    }
}
