import AuditChain
import DaemonAPI
import Refusals

/// `POST /v1/decrypt`.
struct DecryptRoute: Sendable {
    let decryptor: TokenDecryptor

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        request.draft.is(.decrypt(reference: nil))
        let body = try DecryptRequest(parsing: request.body)
        request.draft.is(.decrypt(reference: body.reference.map { AuditDigest.of($0.utf8) }))
        let payment = try await decryptor.decrypt(body, for: caller, draft: request.draft)
        return EndpointAnswer(
            http: .json(status: 200, payment.json), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "transaction.id": "\(payment.transactionIdentifier.hex)", "key.hash": "\(payment.publicKeyHash.hex)",
                "merchant": "\(payment.merchantIdentifier)", "protection": "\(payment.protection.rawValue)",
            ])
    }
}
