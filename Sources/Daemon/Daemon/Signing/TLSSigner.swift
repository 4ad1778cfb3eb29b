import AuditChain
import DaemonAPI
import DaemonConfiguration
import Encodings
import Foundation
import Ledger
import MerchantKeys
import PaymentToken
import Refusals
import TLSHandshake
import UsageRecording
import WorkerProtocol
import WorkerSupervision

/// Signs TLS handshakes with merchants' identity keys, for callers that request merchant sessions from Apple.
///
/// Security depends on the order of the checks. The HSM receives only handshakes of TLS clients. The transaction that
/// records a signature also checks that the signing key is active. If the key is not active, the signature does not
/// leave the daemon. The daemon cannot see the purpose of a TLS 1.3 input, which is a hash, and cannot verify the
/// server name of a TLS 1.2 input. A caller with the role `session` can therefore act as the merchant while it is
/// connected.
struct TLSSigner: Sendable {
    let signatures: RecordedSignatures
    let opening: FirstOpening

    private var keys: KeyIndex { signatures.keys }
    private var hsm: HSMTokenPool { signatures.hsm }
    private var clock: WallClock { signatures.clock }

    /// Returns the merchant's active identities, the newest first.
    ///
    /// - Throws: `forbidden` if the caller's rule does not allow the merchant.
    func identities(of merchant: String, for caller: Caller) async throws(Refusal) -> [TLSIdentity] {
        guard caller.allows(merchant: merchant) else { throw Self.merchantForbidden }
        await opening.pass(forKeysOf: merchant, in: keys)
        let now = clock.now()
        let active = keys.entries.filter { key in
            key.merchantIdentifier == merchant && key.signs(at: now) && key.condition == .served
        }
        let certified = active.compactMap { key in key.certificate.map { (key, $0) } }
            .sorted { ($0.1.notBefore, $0.0.publicKeyHash.hex) > ($1.1.notBefore, $1.0.publicKeyHash.hex) }
        return certified.map { key, certificate in
            TLSIdentity(
                publicKeyHash: key.publicKeyHash.base64, certificateChain: [Base64.encode(certificate.der)],
                notAfter: certificate.notAfter,
                algorithms: hsm.tlsAlgorithms(of: key.hsmTokens).map(\.rawValue))
        }
    }

    /// Signs a TLS handshake.
    /// - Parameter draft: collects the facts for the audit record as they become known.
    func sign(
        _ request: TLSSignatureRequest, for caller: Caller, draft: AuditDraft
    ) async throws(Refusal) -> TLSSignatureAnswer {
        var details = TLSSignatureDetails(reference: request.reference.map { AuditDigest.of($0.utf8) })
        draft.setEvent(.tlsSignature(details))
        guard let hash = PublicKeyHash(base64: request.publicKeyHash) else {
            throw Refusal(.malformedRequest, "publicKeyHash is not base64 of 32 bytes.", details: "publicKeyHash")
        }
        draft.setSubject(key: hash)
        guard let algorithm = TLSSignatureAlgorithm(rawValue: request.algorithm) else {
            throw Refusal(
                .malformedRequest,
                "algorithm must be \(TLSSignatureAlgorithm.allCases.map(\.rawValue).joined(separator: " or ")).",
                details: "algorithm")
        }
        details.algorithm = AuditText(algorithm.rawValue)
        let bytes = try KeyRoutes.base64(request.input, "input")
        details.input = AuditDigest.of(bytes)
        draft.setEvent(.tlsSignature(details))
        let input = try Self.read(bytes, algorithm)

        await opening.pass(for: hash, in: keys, signatures.commit.gate)
        guard let key = keys.entry(hash) else {
            throw Refusal(
                .unknownPublicKeyHash, "No key here has this public key hash.", details: "publicKeyHash \(hash.hex)")
        }
        draft.setSubject(key)
        guard caller.allows(merchant: key.merchantIdentifier) else { throw Self.merchantForbidden }
        try requireSigning(of: key)
        if case .tls12(let transcript) = input { try Self.requireCertificate(transcript, of: hash) }
        guard hsm.tlsAlgorithms(of: key.hsmTokens).contains(algorithm) else {
            throw Refusal(
                .hsmUnavailable,
                "No HSM token that holds the key and is available now can make \(algorithm.rawValue) signatures.",
                details: "GET /v1/tls-identities lists the algorithms; GET /v1/status has details")
        }
        let (signature, audit) = try await signatures.make(
            with: hash, for: .identity, by: caller, draft: draft
        ) { (hsm, requester) async throws(WorkerFailure) in
            try await hsm.sign(
                TLSSigning(publicKeyHash: hash.bytes, algorithm: algorithm, input: bytes), heldBy: key.hsmTokens,
                for: requester)
        }
        return TLSSignatureAnswer(signature: Base64.encode(signature), audit: audit)
    }

    // MARK: Checks

    /// Parses the bytes to sign.
    /// - Throws: malformed_request unless they are a handshake that a TLS client signs for one of Apple's session hosts.
    private static func read(
        _ bytes: [UInt8], _ algorithm: TLSSignatureAlgorithm
    ) throws(Refusal) -> ClientCertificateVerifyInput {
        let input: ClientCertificateVerifyInput
        do {
            input = try ClientCertificateVerifyInput(parsing: bytes)
            if case .tls12(let transcript) = input { _ = try transcript.requireAppleHost() }
        } catch {
            throw Refusal(
                .malformedRequest, "input is not one that a TLS client signs for one of Apple's session hosts.",
                details: "\(error)")
        }
        guard input.permits(algorithm) else {
            throw Refusal(
                .malformedRequest,
                "A TLS 1.3 handshake needs rsa_pss_rsae_sha256; a TLS 1.2 one needs an algorithm that its server offered.",
                details: "algorithm")
        }
        return input
    }

    /// Requires that the certificate in the handshake belongs to this key. No honest caller needs a signature for a
    /// certificate of another key.
    private static func requireCertificate(_ transcript: TLS12Transcript, of key: PublicKeyHash) throws(Refusal) {
        let shown = try? CertificateFields(der: transcript.clientCertificate)
        guard let shown, PublicKeyHash.of(subjectPublicKeyInfo: Array(shown.subjectPublicKeyInfo)) == key else {
            throw Refusal(
                .malformedRequest, "The handshake shows a certificate of another key than the one that would sign.",
                details: "input")
        }
    }

    private func requireSigning(of key: KeyEntry) throws(Refusal) {
        guard key.use == .identity else {
            throw Refusal(.keyNotActive, "The key is for \(key.use.name): only identity keys sign TLS handshakes.")
        }
        switch key.condition {
        case .served, .missing:
            guard key.signs(at: clock.now()) else {
                throw Refusal(
                    .keyNotActive, "The identity key is in the state \(key.state.rawValue), in which it does not sign.")
            }
            if key.condition == .missing {
                throw Refusal(.hsmUnavailable, "The ledger has the identity key, but no HSM token lists it at present.")
            }
        case .external:
            throw Refusal(
                .keyNotActive, "The identity key was made outside paytokend and has not been adopted; adopt it first.")
        case .inconsistent:
            throw Refusal(
                .keyNotActive,
                "The identity key, its identifier and its certificate disagree; GET /v1/keys/{key} says how.")
        }
    }

    private static let merchantForbidden = Refusal(
        .forbidden, "No access rule lets this caller use this merchant's key.")
}
