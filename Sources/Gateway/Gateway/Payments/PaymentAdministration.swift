import AccessControl
import DaemonAPI
import Encodings
import Foundation
import GatewayAPI
import HostSystem
import Payments
import Refusals
import ServerProgram

/// The endpoints for payments on the admin socket, for administrators. The commands `paytoken-gateway payment
/// list|show|resolve` call them.
struct PaymentAdministration: Sendable {
    let store: any PaymentStore

    private static let bodyLimit = 4 << 10

    var routes: [AdminRoute] { Self.routes(list: listPayments, show: showPayment, resolve: resolvePayment) }

    /// The endpoints of a gateway whose configuration names no processors. Such a gateway has no store of payments, so
    /// each endpoint refuses every request. The refusal names the missing setting.
    static let routesWithoutPayments = routes(list: refuseRequest, show: refuseRequest, resolve: refuseRequest)

    private typealias RequestHandler = @Sendable (AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer

    private static func routes(
        list: @escaping RequestHandler, show: @escaping RequestHandler, resolve: @escaping RequestHandler
    ) -> [AdminRoute] {
        [
            AdminRoute("POST", "/v1/payments/list", access: .support, bodyLimit: bodyLimit, respond: list),
            AdminRoute("GET", "/v1/payments/{transactionId}", access: .support, respond: show),
            AdminRoute(
                "POST", "/v1/payments/{transactionId}/resolve", access: .resolve, bodyLimit: bodyLimit, respond: resolve
            ),
        ]
    }

    private static func refuseRequest(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        throw GatewayRefusal(
            .daemon(.notFound),
            "This gateway keeps no payments, since its configuration names no processors. Name a processor under processors, "
                + "and restart the gateway.")
    }

    private func listPayments(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let listRequest: PaymentListRequest
        do throws(Refusal) { listRequest = try PaymentListRequest(parsing: request.body) } catch {
            throw GatewayRefusal(error)
        }
        let states = Set(
            (listRequest.states ?? "").split(separator: ",").compactMap { PaymentState(rawValue: String($0)) })
        let found = try await useStore { () throws(PaymentStoreError) in
            try await store.payments(
                PaymentFilter(
                    client: listRequest.client, states: states, since: listRequest.since,
                    limit: listRequest.limit.flatMap { Int($0) } ?? 100))
        }
        return try .json(PaymentList(items: found.map { PaymentSummary($0, history: nil) }))
    }

    private func showPayment(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let transaction = try Self.transactionIdentifier(in: request)
        let found = try await useStore { () throws(PaymentStoreError) in
            try await store.payment(transaction: transaction)
        }
        guard let payment = found else { throw GatewayRefusal(PaymentStoreError.notFound) }
        let history = try await useStore { () throws(PaymentStoreError) in try await store.history(of: payment.key) }
        return try .json(PaymentSummary(payment, history: history))
    }

    private func resolvePayment(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let transaction = try Self.transactionIdentifier(in: request)
        let resolution: PaymentResolution
        do throws(Refusal) { resolution = try PaymentResolution(parsing: request.body) } catch {
            throw GatewayRefusal(error)
        }
        guard let state = resolution.state else { throw .defect }
        let person = request.peer.personName
        let payment: Payment
        do throws(PaymentStoreError) {
            payment = try await store.resolve(
                transaction: transaction, as: state, by: person, reason: resolution.reason, at: Date())
        } catch {
            guard case .superseded(let state) = error else { throw GatewayRefusal(error) }
            throw GatewayRefusal(
                .daemon(.invalidState), "This payment is \(state.rawValue); only a pending one can be resolved.",
                details: state.rawValue)
        }
        var answer = try EndpointAnswer.json(
            PaymentSummary(payment, history: try? await store.history(of: payment.key)))
        answer.metadata = [
            "transaction.id": "\(payment.transaction?.name ?? "")", "state": "\(state.rawValue)", "person": "\(person)",
        ]
        return answer
    }

    private static func transactionIdentifier(in request: AdminRequest) throws(GatewayRefusal) -> [UInt8] {
        guard let bytes = request.pathArguments.first.flatMap({ Hexadecimal.decode($0) }), bytes.count == 32
        else {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "A payment is named by its transactionId, 64 hexadecimal digits.")
        }
        return bytes
    }

    /// Runs `body`, which calls the store, and returns its result. Converts an error of the store to the refusal that
    /// the caller receives.
    private func useStore<Value: Sendable>(
        _ body: () async throws(PaymentStoreError) -> Value
    ) async throws(GatewayRefusal) -> Value {
        do throws(PaymentStoreError) { return try await body() } catch { throw GatewayRefusal(error) }
    }
}

extension PaymentResolution {
    var state: PaymentState? {
        PaymentState(rawValue: status).flatMap { Self.statuses.contains($0.rawValue) ? $0 : nil }
    }
}

extension PaymentSummary {
    init(_ payment: Payment, history: [PaymentChange]?) {
        self.init(
            transactionId: payment.transaction?.name, client: payment.key.client, purpose: payment.purpose.rawValue,
            orderId: payment.orderId, state: payment.state.rawValue,
            merchantIdentifier: payment.transaction?.merchantIdentifier, processor: payment.transaction?.processor,
            amount: payment.transaction?.amount?.decimal, currency: payment.transaction?.amount?.currency.letters,
            authorizationCode: payment.outcome?.authorizationCode,
            processorReference: payment.outcome?.processorReference, reason: payment.outcome?.reason,
            gateway: payment.attempt.owner, receivedAt: payment.receivedAt, changedAt: payment.changedAt,
            history: history?.map {
                Change(state: $0.state.rawValue, at: $0.at, by: $0.by, attempt: $0.attempt, reason: $0.reason)
            })
    }
}

extension PeerCredentials {
    /// The text that names this peer in the history of a payment that it resolved. The text consists of the peer's
    /// account and login uid, with the current names of both on this host.
    fileprivate var personName: String {
        let account = Self.accountName(of: uid)
        return switch loginUID {
        case .set(let login): "\(account), logged in as \(Self.accountName(of: login))"
        case .unset: account
        case .unreadable: "\(account), login uid unreadable"
        }
    }

    private static func accountName(of uid: UInt32) -> String {
        Accounts.user(String(uid)).map { "\($0.name) (\($0.uid))" } ?? "uid \(uid)"
    }
}
