import AuditChain
import DaemonAPI
import PaymentToken
import Refusals
import ServerProgram

/// `POST /v1/decrypt` and `POST /v1/verify`, the two paths of payment backends.
struct DecryptionRoutes: Sendable {
    let decryptor: TokenDecryptor
    /// Called with the uid of each release's caller once the release is durable.
    var released: @Sendable (UInt32) -> Void = { _ in }

    func decrypt(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(.decrypt(reference: nil))
        let turn = try await request.turn()
        defer { turn?.end() }
        let body = try DecryptRequest(parsing: request.body)
        request.draft.setEvent(.decrypt(reference: body.reference.map { AuditDigest.of($0.utf8) }))
        let payment = try await decryptor.decrypt(
            body, for: caller, draft: request.draft, from: request.origin, turn: turn)
        released(caller.peer.uid)
        return EndpointAnswer(
            http: .json(status: 200, payment.json), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "transaction.id": .string(payment.transactionIdentifier.hex),
                "key.hash": .string(payment.publicKeyHash.hex), "merchant": .string(payment.merchantIdentifier),
                "protection": .string(payment.protection.rawValue),
            ])
    }

    /// Verifies that Apple signed the payment token. No key is used, and no claim is made.
    ///
    /// The transactionId in the answer is the one that the payment token names. The signature covers data ‖
    /// transactionId ‖ applicationData without their lengths. A payment token in which 32 bytes were moved from one to
    /// the other therefore verifies too; only decryption detects it (`PaymentToken` permits no other length). A caller
    /// that must be sure of the transactionId has to decrypt.
    func verify(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(.verify)
        let turn = try await request.turn()
        defer { turn?.end() }
        let body = try VerifyRequest(parsing: request.body)
        let verified = try await decryptor.verify(body.token, at: body.at, for: caller, draft: request.draft)
        return try .json(
            VerifyAnswer(
                version: verified.paymentToken.version.rawValue,
                transactionId: verified.paymentToken.transactionIdentifier.hex,
                publicKeyHash: verified.paymentToken.publicKeyHash.base64, signingTime: verified.signingTime,
                chain: verified.chain.certificates.map(CertificateSummary.init)))
    }
}

extension CertificateSummary {
    init(_ certificate: CertificateDescription) {
        self.init(
            subject: certificate.subject, issuer: certificate.issuer, serialNumber: certificate.serialNumber,
            notBefore: certificate.notBefore, notAfter: certificate.notAfter,
            sha256: certificate.sha256Hex)
    }
}
