import AuditChain
import DaemonAPI
import MerchantKeys
import Refusals
import ServerProgram
import UsageRecording

/// The handlers of `/v1/tls-identities` and `/v1/tls-signatures`, for TLS clients whose private key is in an HSM token.
struct TLSRoutes: Sendable {
    let signer: TLSSigner

    /// Lists a merchant's identities. The request is not recorded, since no key is used.
    func identities(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        guard let merchant = request.query["merchantIdentifier"], MerchantIdentifier.isPossible(merchant) else {
            throw Refusal(
                .malformedRequest, "The query must name a merchant: ?merchantIdentifier=merchant.com.example",
                details: "merchantIdentifier")
        }
        request.draft.setSubject(merchant: merchant)
        return try .json(
            ListAnswer(items: try await signer.identities(of: merchant, for: request.knownCaller()), next: nil))
    }

    func sign(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.setEvent(.tlsSignature(TLSSignatureDetails()))
        let body = try TLSSignatureRequest(parsing: request.body)
        return try .json(try await signer.sign(body, for: caller, draft: request.draft))
    }
}
