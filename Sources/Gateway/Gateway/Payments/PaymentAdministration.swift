import AccessControl
import DaemonAPI
import Encodings
import Foundation
import GatewayAPI
import HostSystem
import Payments
import Refusals
import ServerProgram

/// The payment paths on the admin socket, for administrators: `paytoken-gateway payment list|show|resolve`.
struct PaymentAdministration: Sendable {
    let store: any PaymentStore

    private static let bodyLimit = 4 << 10

    var routes: [AdminRoute] { Self.routes(list: list, show: show, resolve: resolve) }

    /// The payment paths for a gateway without configured processors, which has no store of payments. Each request gets
    /// a refusal that states this reason.
    static let routesWithoutPayments = routes(list: refuse, show: refuse, resolve: refuse)

    private typealias Response = @Sendable (AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer

    private static func routes(
        list: @escaping Response, show: @escaping Response, resolve: @escaping Response
    ) -> [AdminRoute] {
        [
            AdminRoute("POST", "/v1/payments/list", access: .support, bodyLimit: bodyLimit, respond: list),
            AdminRoute("GET", "/v1/payments/{transactionId}", access: .support, respond: show),
            AdminRoute(
                "POST", "/v1/payments/{transactionId}/resolve", access: .resolve, bodyLimit: bodyLimit, respond: resolve
            ),
        ]
    }

    private static func refuse(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        throw GatewayRefusal(
            .daemon(.notFound),
            "This gateway keeps no payments, since its configuration names no processors. Name a processor under processors, "
                + "and restart the gateway.")
    }

    private func list(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let wanted: PaymentListRequest
        do throws(Refusal) { wanted = try PaymentListRequest(parsing: request.body) } catch {
            throw GatewayRefusal(error)
        }
        let states = Set((wanted.states ?? "").split(separator: ",").compactMap { PaymentState(rawValue: String($0)) })
        let found = try await useStore { () throws(PaymentStoreError) in
            try await store.payments(
                PaymentFilter(
                    client: wanted.client, states: states, since: wanted.since,
                    limit: wanted.limit.flatMap { Int($0) } ?? 100))
        }
        return try .json(PaymentList(items: found.map { PaymentSummary($0, history: nil) }))
    }

    private func show(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let transaction = try Self.transaction(request)
        let found = try await useStore { () throws(PaymentStoreError) in
            try await store.payment(transaction: transaction)
        }
        guard let payment = found else { throw GatewayRefusal(PaymentStoreError.notFound) }
        let history = try await useStore { () throws(PaymentStoreError) in try await store.history(of: payment.key) }
        return try .json(PaymentSummary(payment, history: history))
    }

    private func resolve(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let transaction = try Self.transaction(request)
        let wanted: PaymentResolution
        do throws(Refusal) { wanted = try PaymentResolution(parsing: request.body) } catch {
            throw GatewayRefusal(error)
        }
        guard let state = wanted.state else { throw .defect }
        let person = request.peer.person
        let payment: Payment
        do throws(PaymentStoreError) {
            payment = try await store.resolve(
                transaction: transaction, as: state, by: person, reason: wanted.reason, at: Date())
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

    private static func transaction(_ request: AdminRequest) throws(GatewayRefusal) -> [UInt8] {
        guard let bytes = request.pathArguments.first.flatMap({ Hexadecimal.decode($0) }), bytes.count == 32
        else {
            throw GatewayRefusal(
                .daemon(.malformedRequest), "A payment is named by its transactionId, 64 hexadecimal digits.")
        }
        return bytes
    }

    /// Makes a call to the store, and returns its result. If the call fails, throws the refusal with which the gateway
    /// answers the request.
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
    /// The peer's account and login uid with their current names on this host. The payment's history names the person
    /// who resolved it in this form.
    fileprivate var person: String {
        let account = Self.named(uid)
        return switch loginUID {
        case .set(let login): "\(account), logged in as \(Self.named(login))"
        case .unset: account
        case .unreadable: "\(account), login uid unreadable"
        }
    }

    private static func named(_ uid: UInt32) -> String {
        Accounts.user(String(uid)).map { "\($0.name) (\($0.uid))" } ?? "uid \(uid)"
    }
}
