import DaemonAPI
import Encodings
import Foundation
import Payments
import Refusals
import StrictJSON

/// A payment token that paytokend released. It exists only in memory, until its data have been sent to the processor or
/// to the client.
struct ReleasedToken: Sendable {
    /// The transaction identifier, 32 bytes.
    let transaction: [UInt8]
    let merchantIdentifier: String
    /// The decrypted dictionary. Its strings are in ordinary memory rather than secret memory. The kernel writes no
    /// core dump of the process, because the process is not dumpable.
    let paymentData: JSONObject
    /// The JSON text of ``paymentData``.
    let bytes: [UInt8]
}

/// `POST /v1/decrypt` of paytokend, for one attempt at a payment.
struct PaytokendDecryption: Sendable {
    let paytokend: PaytokendCalls

    /// - Parameters:
    ///   - client: the client, whose merchants paytokend receives. If none of them is the payment token's merchant,
    ///     paytokend refuses the request without claiming the payment token. Otherwise a client could use up a payment
    ///     token that it obtained from another client.
    ///   - after: the earlier attempts that sent nothing. If paytokend released the payment token to one of them, it
    ///     may release the payment token again.
    ///   - deadline: the time after which the call stops waiting for an answer.
    func release(
        _ request: PaymentRequest, for payment: Payment, of client: GatewayClient, after: [[UInt8]],
        traceparent: String?,
        before deadline: ContinuousClock.Instant
    ) async throws(DecryptionFailure) -> ReleasedToken {
        var token = JSONWriter(capacity: 8192)
        token.value(.object(request.token))
        let body = DecryptRequest.body(
            paymentToken: token.bytes, expected: request.expected.isEmpty ? nil : request.expected.canonical,
            reference: request.tokenIdentity.reference(client: payment.key.client), attempt: payment.attempt.name,
            after: after.map { Hexadecimal.encode($0) }, merchants: client.merchants.map(\.text))
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
            // The gateway sent the request twice. The first request may have released the payment token, but its
            // answer was lost. This attempt ends as `not_sent`. The client's next attempt names this one in `after`, so
            // that paytokend may release the payment token again.
            if isSecond, refusal.refusalCode == .transactionReplayed { throw .unreachable }
            throw DecryptionFailure(
                code: refusal.code, message: refusal.message, details: refusal.details,
                retryAfter: answer.header("Retry-After").flatMap { Int($0) })
        }
        guard let (read, paymentData, _) = DecryptAnswer.read(answer.body),
            let transaction = Hexadecimal.decode(read.transactionId), transaction == request.tokenIdentity.transaction
        else { throw DecryptionFailure(.defect, isFinal: false) }
        var bytes = JSONWriter(capacity: 1024)
        bytes.value(.object(paymentData))
        return ReleasedToken(
            transaction: transaction, merchantIdentifier: read.merchantIdentifier, paymentData: paymentData,
            bytes: bytes.bytes)
    }
}
