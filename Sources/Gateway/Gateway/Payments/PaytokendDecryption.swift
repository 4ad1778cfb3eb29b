import DaemonAPI
import Encodings
import Foundation
import Payments
import Refusals
import StrictJSON

/// A payment token that paytokend released. It exists only in memory, until its data have been sent to the processor or
/// to the client.
struct ReleasedPaymentToken: Sendable {
    /// The transaction identifier, 32 bytes.
    let transactionIdentifier: [UInt8]
    let merchantIdentifier: String
    /// The decrypted dictionary. Its strings are in ordinary memory, not in ``SecretBytes``. The process is not
    /// dumpable, so the kernel writes no core dump that would contain them.
    let paymentData: JSONObject
    /// The JSON text of ``paymentData``.
    let paymentDataJSON: [UInt8]
}

/// Requests to paytokend for the release of payment tokens (`POST /v1/decrypt`).
struct PaytokendDecryption: Sendable {
    let paytokend: PaytokendCalls

    /// Asks paytokend to release the payment token for one attempt at a payment.
    ///
    /// - Parameters:
    ///   - client: the client on whose behalf the request is made. The request lists the client's merchants. If none of
    ///     them is the payment token's merchant, paytokend refuses the request without claiming the payment token.
    ///     Otherwise a client could use up a payment token that it obtained from another client.
    ///   - earlierAttempts: the identifiers of the client's earlier attempts that sent nothing. paytokend releases the
    ///     payment token again only if one of them received the last release.
    ///   - deadline: the time after which the call no longer waits for an answer.
    func releasePaymentToken(
        _ request: PaymentRequest, for payment: Payment, of client: GatewayClient, earlierAttempts: [[UInt8]],
        traceparent: String?,
        before deadline: ContinuousClock.Instant
    ) async throws(DecryptionFailure) -> ReleasedPaymentToken {
        var paymentToken = JSONWriter(capacity: 8192)
        paymentToken.value(.object(request.paymentToken))
        let body = DecryptRequest.body(
            paymentToken: paymentToken.bytes, expected: request.expected.isEmpty ? nil : request.expected.paytokendForm,
            reference: request.tokenIdentity.reference(client: payment.key.client), attempt: payment.attempt.name,
            after: earlierAttempts.map { Hexadecimal.encode($0) }, merchants: client.merchants.map(\.text))
        let answer: ClientAnswer
        let isSecond: Bool
        do {
            (answer, isSecond) = try await paytokend.send(
                ClientRequest(method: "POST", target: "/v1/decrypt", body: body, traceparent: traceparent),
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
        guard let (read, paymentData, _) = DecryptAnswer.read(answer.body),
            let identifier = Hexadecimal.decode(read.transactionId),
            identifier == request.tokenIdentity.transactionIdentifier
        else { throw DecryptionFailure(.defect, isFinal: false) }
        var json = JSONWriter(capacity: 1024)
        json.value(.object(paymentData))
        return ReleasedPaymentToken(
            transactionIdentifier: identifier, merchantIdentifier: read.merchantIdentifier, paymentData: paymentData,
            paymentDataJSON: json.bytes)
    }
}
