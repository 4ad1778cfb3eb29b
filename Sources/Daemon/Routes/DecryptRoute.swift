import DaemonAPI
import Refusals

/// `POST /v1/decrypt`.
struct DecryptRoute: Sendable {
    let decryptor: TokenDecryptor

    func respond(_ request: EndpointRequest) async throws(Refusal) -> EndpointAnswer {
        let caller = try request.knownCaller()
        let payment = try await decryptor.decrypt(DecryptRequest(parsing: request.body), for: caller)
        return EndpointAnswer(
            http: .json(status: 200, payment.json), outcome: payment.isRepeat ? "repeat" : "ok",
            metadata: [
                "transaction.id": "\(payment.transactionIdentifier.hex)", "key.hash": "\(payment.publicKeyHash.hex)",
                "merchant": "\(payment.merchantIdentifier)", "protection": "\(payment.protection.rawValue)",
            ])
    }
}
