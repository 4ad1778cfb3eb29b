import Payments
import Processors

extension PaymentFlow {
    /// Returns a payment token's decrypted data to the client itself, once.
    ///
    /// `released` is durable before anything is answered, and nothing follows it: the payment token is never paid here,
    /// and its data are never given again. A lost answer costs the customer another authorization, and no one money.
    func disclose(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?
    ) async throws(GatewayRefusal) -> ReleasedToken {
        try await toItsEnd(for: client) { _ in
            .released
        } _: { began throws(GatewayRefusal) in
            try await makeDisclosure(request, for: client, traceparent: traceparent, since: began)
        }
    }

    private func makeDisclosure(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?,
        since began: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> ReleasedToken {
        guard case .begun(let payment, let after) = try await begin(request, .release, for: client) else {
            throw GatewayRefusal(
                .daemon(.transactionReplayed),
                "This payment token was already decrypted for this client, which happens only once; ask the customer to authorize again."
            )
        }
        let released = try await release(
            request, payment, of: client, after: after, traceparent: traceparent, before: began + deadline)
        let transaction = PaymentTransaction(
            identifier: released.transaction, merchantIdentifier: released.merchantIdentifier,
            amount: (try? PaymentDataReader.amount(released.paymentData)) ?? nil, processor: nil)
        _ = try await claim(payment, transaction, as: .released, nil)
        // The payment is released from here on, and the store has it on disk.
        return released
    }
}
