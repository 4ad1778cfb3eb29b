import DaemonAPI
import Encodings
import Payments
import Refusals
import StrictJSON

/// A payment token that paytokend released. It exists only in memory, until its data have been sent to the processor or
/// to the client.
struct ReleasedPaymentToken: Sendable {
    /// The transaction identifier, 32 bytes.
    let transactionIdentifier: [UInt8]
    let merchantIdentifier: String
    /// The decrypted dictionary: Apple's payment data, or Google's whole plaintext. Its strings are in ordinary memory, not in ``SecretBytes``. The process is not
    /// dumpable, so the kernel writes no core dump that would contain them.
    let paymentData: JSONObject
    /// The JSON text of ``paymentData``.
    var paymentDataJSON: [UInt8] { JSONValue.object(paymentData).compact }
}

/// Requests to paytokend for the release of payment tokens (`POST /v1/decrypt` and `POST /v1/google-pay/decrypt`).
struct PaytokendDecryption: Sendable {
    let paytokend: PaytokendCalls
    let processors: ProcessorDirectory

    /// Asks paytokend to release the payment token for one attempt at a payment.
    ///
    /// - Parameters:
    ///   - client: the client on whose behalf the request is made.
    ///   - earlierAttempts: the identifiers of the client's earlier attempts that sent nothing. paytokend releases the
    ///     payment token again only if one of them received the last release.
    ///   - deadline: the time after which the call no longer waits for an answer.
    func releasePaymentToken(
        _ request: PaymentRequest, for payment: Payment, of client: GatewayClient, earlierAttempts: [[UInt8]],
        traceparent: String?,
        before deadline: ContinuousClock.Instant
    ) async throws(DecryptionFailure) -> ReleasedPaymentToken {
        let names = ReleaseNames(
            reference: request.tokenIdentity.reference(client: payment.key.client),
            attempt: payment.attempt.name, after: earlierAttempts.map { Hexadecimal.encode($0) })
        let (path, body) = request.walletRequest.releaseRequest(
            names, for: client, to: processors.processor(for: request.walletRequest))
        let answer: ClientAnswer
        let isSecond: Bool
        do {
            (answer, isSecond) = try await paytokend.send(
                ClientRequest(method: "POST", target: path, body: body, traceparent: traceparent),
                for: client.name, before: deadline)
        } catch {
            if case .busy = error { throw .busy }
            throw .unreachable
        }
        guard answer.isSuccess else {
            guard let refusal = answer.refusal else { throw .unreachable }
            // The gateway sent the request twice. The first request may have released the payment token, but the answer
            // was lost. This attempt ends as `not_sent`. The client's next attempt names this attempt in `after`, so
            // paytokend may then release the payment token again.
            if isSecond, refusal.refusalCode == .transactionReplayed { throw .unreachable }
            throw DecryptionFailure(
                code: refusal.code, message: refusal.message, details: refusal.details,
                retryAfter: answer.header("Retry-After").flatMap { Int($0) })
        }
        guard let released = request.walletRequest.release(in: answer.body) else {
            throw DecryptionFailure(.defect, isFinal: false)
        }
        return released
    }
}
