import DaemonAPI
import PaymentToken
import Refusals

/// `POST /v1/verify`: is this token Apple's? No key is used, nothing is claimed.
///
/// The transactionId in the answer is as the token names it. The signature covers data ‖ transactionId ‖ applicationData
/// without lengths, so a token in which 32 bytes were moved between them verifies too; opening it fails (`PaymentToken`
/// leaves no other length). Whoever needs the transactionId for sure decrypts.
struct VerifyRoute: Sendable {
    let decryptor: TokenDecryptor

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.is(.verify)
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
