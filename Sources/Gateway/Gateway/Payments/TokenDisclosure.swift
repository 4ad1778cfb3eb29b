import Payments
import Processors

extension PaymentFlow {
    /// Returns a payment token's decrypted data to the client itself, once.
    ///
    /// The state `released` is durable before the response is sent, and it is final. The gateway never pays with the
    /// payment token afterwards, and never returns its data again. If the response is lost, the customer has to
    /// authorize again, but no money is lost.
    func disclose(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?
    ) async throws(GatewayRefusal) -> ReleasedPaymentToken {
        try await runToEnd(request.walletRequest.wallet, for: client) { _ in
            .released
        } _: { began throws(GatewayRefusal) in
            try await makeDisclosure(request, for: client, traceparent: traceparent, since: began)
        }
    }

    private func makeDisclosure(
        _ request: PaymentRequest, for client: GatewayClient, traceparent: String?,
        since began: ContinuousClock.Instant
    ) async throws(GatewayRefusal) -> ReleasedPaymentToken {
        guard case .begun(let payment, let earlierAttempts) = try await beginAttempt(request, .release, for: client)
        else {
            throw GatewayRefusal(
                .daemon(.transactionReplayed),
                "This payment token was already decrypted for this client, which happens only once; ask the customer to authorize again."
            )
        }
        let released = try await releasePaymentToken(
            request, payment, of: client, earlierAttempts: earlierAttempts, traceparent: traceparent,
            before: began + timeLimit)
        let transaction = PaymentTransaction(
            identifier: released.transactionIdentifier, merchantIdentifier: released.merchantIdentifier,
            amount: (try? PaymentDataReader.amount(released.paymentData)) ?? nil, processor: nil)
        _ = try await claim(payment, transaction, as: .released, nil)
        // The state `released` is now on disk, so the data may be sent to the client.
        return released
    }
}
