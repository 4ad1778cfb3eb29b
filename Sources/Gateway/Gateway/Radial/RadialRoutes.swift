import Encodings
import Foundation
import Payments
import Radial
import ServerProgram

/// `POST /radial/credit-card-auth`, Radial's single-request flow with any processor, and `POST /radial/decrypt`, the
/// first step of the two-request flow, in which the client itself submits the payment.
///
/// `POST /radial/credit-card-auth` makes the same payment as `POST /payments/apple-pay`, from a request in another
/// form. Both use the same store and the same rules. `GET /payments/apple-pay/{transactionId}` returns the status of
/// either payment. Refusals are Radial's Fault documents.
struct RadialRoutes: Sendable {
    let flow: PaymentFlow
    let maxRequestBytes: Int

    var routes: [GatewayRoute] {
        [
            GatewayRoute(
                "POST", "/radial/credit-card-auth", operation: .pay, form: .xml, bodyLimit: maxRequestBytes,
                timeLimit: flow.timeLimit + PaymentRoutes.responseMargin, respond: authorize),
            GatewayRoute(
                "POST", "/radial/decrypt", operation: .decrypt, form: .xml, bodyLimit: maxRequestBytes,
                timeLimit: flow.timeLimit + PaymentRoutes.responseMargin, respond: decrypt),
        ]
    }

    private func authorize(_ request: GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let wanted: CreditCardAuthRequest
        do throws(DocumentError) {
            wanted = try await request.reading { body throws(DocumentError) in try CreditCardAuthRequest(parsing: body)
            }
        } catch { throw GatewayRefusal(error) }
        let payment = try await flow.pay(
            PaymentRequest(wanted), for: request.client, traceparent: request.trace.traceparent)
        // An earlier request is still submitting the payment, and the processor may still decline it. There is no
        // result to reply with yet.
        if payment.state == .submitting, !payment.isAbandoned(at: Date()) {
            throw GatewayRefusal(
                .payment(.underWay), "Another request is submitting this payment; ask again for its outcome.")
        }
        // A declined payment gets a reply in Radial's form. Every other failed payment gets a refusal.
        if payment.state != .declined, let refusal = GatewayRefusal(outcomeOf: payment) { throw refusal }
        guard CreditCardAuthReply.canExpress(payment) else {
            throw GatewayRefusal(
                .payment(.pending),
                "The payment was submitted, and its outcome is unknown. Neither accept the order nor have it paid again; send the same document again.",
                details: payment.transaction?.name)
        }
        let reply = try CreditCardAuthReply(payment, orderId: wanted.orderId)
        var answer = EndpointAnswer.bytes(
            reply.document(
                for: wanted.schemaVersion, withAccountInformation: wanted.includesPaymentAccountInformation),
            contentType: "text/xml")
        answer.outcome = payment.state == .submitting ? PaymentState.pending.rawValue : payment.state.rawValue
        answer.metadata = ["transaction.id": "\(payment.transaction?.name ?? "")"]
        return answer
    }

    /// Returns decrypted payment data: the only response in which card data leave the gateway for a receiver other than
    /// a processor.
    private func decrypt(_ request: GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        // The configuration permits this operation only for clients that use certificates alone. The check is repeated
        // here, because the response contains card data.
        guard request.client.credentials.allSatisfy(\.usesCertificate) else {
            throw GatewayRefusal(
                .daemon(.forbidden), "Only a client that authenticates with a certificate may do this.")
        }
        let wallet: WalletPaymentInformation
        do throws(DocumentError) {
            wallet = try await request.reading { body throws(DocumentError) in
                try WalletPaymentInformation(parsing: body)
            }
        } catch { throw GatewayRefusal(error) }
        let released = try await flow.disclose(
            PaymentRequest(wallet), for: request.client, traceparent: request.trace.traceparent)
        var answer = EndpointAnswer.bytes(released.paymentDataJSON, contentType: "application/json")
        answer.outcome = PaymentState.released.rawValue
        answer.metadata = ["transaction.id": "\(Hexadecimal.encode(released.transactionIdentifier))"]
        return answer
    }
}
