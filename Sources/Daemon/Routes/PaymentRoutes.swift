import AuditChain
import DaemonAPI
import PaymentToken
import Refusals

/// `POST /v1/decrypt`.
struct DecryptRoute: Sendable {
    let decryptor: TokenDecryptor

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.auditRecord.is(.decrypt(reference: nil))
        let body = try DecryptRequest(parsing: request.body)
        request.auditRecord.is(.decrypt(reference: body.reference.map { AuditDigest.of($0.utf8) }))
        let payment = try await decryptor.decrypt(body, for: caller, record: request.auditRecord)
        return EndpointAnswer(
            http: .json(status: 200, payment.json), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "transaction.id": "\(payment.transactionIdentifier.hex)", "key.hash": "\(payment.publicKeyHash.hex)",
                "merchant": "\(payment.merchantIdentifier)", "protection": "\(payment.protection.rawValue)",
            ])
    }
}

/// `POST /v1/verify`: is this token Apple's? No key is used, nothing is claimed.
///
/// The transactionId in the answer is as the token names it. The signature covers data ‖ transactionId ‖ applicationData
/// without lengths, so a token in which 32 bytes were moved between them verifies too; opening it fails (`PaymentToken`
/// leaves no other length). Whoever needs the transactionId for sure decrypts.
struct VerifyRoute: Sendable {
    let decryptor: TokenDecryptor

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.auditRecord.is(.verify)
        let body = try VerifyRequest(parsing: request.body)
        let verified = try await decryptor.verify(body.token, at: body.at, for: caller, record: request.auditRecord)
        return try .json(
            VerifyAnswer(
                version: verified.token.version.rawValue, transactionId: verified.token.transactionIdentifier.hex,
                publicKeyHash: verified.token.publicKeyHash.base64, signingTime: verified.signingTime,
                chain: verified.chain.certificates.map(CertificateSummary.init)))
    }
}
