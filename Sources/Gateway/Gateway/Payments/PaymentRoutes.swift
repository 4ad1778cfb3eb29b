import DaemonAPI
import Encodings
import Foundation
import KeyTypes
import Payments
import Radial
import ServerProgram
import StrictJSON

/// The endpoints `POST /payments/WALLET` and `GET /payments/WALLET/{transactionId}` of both wallets.
struct PaymentRoutes: Sendable {
    let flow: PaymentFlow
    let maxRequestBytes: Int

    /// The time that a request may take to write the response, in addition to the payment's time limit.
    static let responseMargin = Duration.seconds(5)

    /// A payment of either wallet is returned under both paths, since the store's transaction identifiers are unique.
    var routes: [GatewayRoute] {
        Wallet.allCases.flatMap { wallet in
            [
                GatewayRoute(
                    "POST", "/payments/\(wallet.rawValue)", operation: .pay, bodyLimit: maxRequestBytes,
                    timeLimit: flow.timeLimit + Self.responseMargin
                ) { request throws(GatewayRefusal) in try await pay(request, with: wallet) },
                GatewayRoute(
                    "GET", "/payments/\(wallet.rawValue)/{transactionId}", operation: .status, respond: status),
            ]
        }
    }

    private func pay(
        _ request: GatewayRequest, with wallet: Wallet
    ) async throws(GatewayRefusal) -> EndpointAnswer {
        let wanted = try await request.reading { body throws(GatewayRefusal) in
            try PaymentRequest(parsing: body, of: wallet)
        }
        let payment = try await flow.pay(wanted, for: request.client, traceparent: request.trace.traceparent)
        if let refusal = GatewayRefusal(outcomeOf: payment) { throw refusal }
        return try PaymentResult.answer(for: payment)
    }

    private func status(_ request: GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let notFound = GatewayRefusal(.daemon(.notFound), "This client has submitted no payment of this transactionId.")
        guard let transaction = request.pathArguments.first.flatMap({ Hexadecimal.decode($0) }),
            transaction.count == 32
        else { throw notFound }
        let found: Payment?
        do throws(PaymentStoreError) { found = try await flow.store.payment(transaction: transaction) } catch {
            throw GatewayRefusal(error)
        }
        // The response is the same for another client's payment as for an unknown one. Otherwise a client could find
        // out which payments other clients have made.
        guard let payment = found, request.client.owns(payment), payment.state.mayHaveBeenSent else {
            throw notFound
        }
        return try PaymentResult.answer(for: payment)
    }
}

/// The response body PaymentResult of the merchant server's API, with one additional member: `processorCodes`.
enum PaymentResult {
    /// Returns the response for a payment. The response shows the state `submitting` as `pending`, since a client need
    /// not distinguish the two.
    static func answer(for payment: Payment) throws(GatewayRefusal) -> EndpointAnswer {
        guard let transaction = payment.transaction else { throw .defect }
        let status = payment.state == .submitting ? PaymentState.pending : payment.state
        var json = JSONWriter(capacity: 256)
        json.beginObject()
        json.member("transactionId", transaction.name)
        json.member("status", status.rawValue)
        if let code = payment.outcome?.authorizationCode { json.member("authorizationCode", code) }
        if let amount = transaction.amount, let number = JSONNumber(text: amount.decimal) {
            json.member("amount")
            json.number(number)
            json.member("currency", amount.currency.letters)
        }
        if let processedAt = payment.outcome?.processedAt { json.member("processedAt", RFC3339.string(processedAt)) }
        writeProcessorCodes(payment, &json)
        json.endObject()
        var answer = EndpointAnswer.bytes(json.bytes, contentType: "application/json")
        answer.outcome = status.rawValue
        answer.metadata = ["transaction.id": "\(transaction.name)"]
        return answer
    }
    /// Writes the codes with which Radial reports its checks of the address and CVV2, if the outcome has any. Each
    /// member has the name of Radial's XML element. A merchant uses these codes to decide whether to ship for an
    /// approved payment.
    private static func writeProcessorCodes(_ payment: Payment, _ json: inout JSONWriter) {
        guard let codes = payment.outcome?.reason.flatMap({ ReplyCodes(text: $0) })?.elements, !codes.isEmpty else {
            return
        }
        json.member("processorCodes")
        json.beginObject()
        for code in codes { json.member(code.name, code.value) }
        json.endObject()
    }
}
