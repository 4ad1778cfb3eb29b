import Foundation
import HTTPListener
import HostSystem
import Refusals
import ServerProgram
import Telemetry

/// The identity of a merchant's backend, and its rights.
///
/// Before a byte of the body is read, this type ensures that the client is identified by its bearer key or its
/// certificate, and that its rate and its connections are within their limits. Once the path is known
/// (`ServerProgram/Router.swift`), it also ensures that the client may use the route's operation. The route itself
/// checks merchant and domain, because they are in the body.
struct MerchantRules: RouterRules {
    let clients: CurrentClients
    let rates: RequestRates
    /// The time from a request's last byte to its response.
    let requestTimeout: Duration

    func sender(of head: RequestHead, from peer: NetworkRequests) -> GatewaySender {
        GatewaySender(
            address: peer.peer.address, source: peer.peer.source,
            trace: TraceContext(traceparent: head.values(of: "traceparent")))
    }

    func identify(
        _ sender: inout GatewaySender, by head: RequestHead, from peer: NetworkRequests, here: [GatewayRoute],
        route: GatewayRoute?
    ) throws(GatewayRefusal) {
        let client = try known(head, peer.peer)
        sender.client = client
        if let seconds = rates.secondsToWait(client.name) {
            throw .tooMany(
                "This client has exceeded its request rate; send fewer requests, or try again later.",
                retryAfter: seconds)
        }
        guard peer.takesPlace(client) else {
            throw .tooMany(
                "This client, or all clients together, have too many connections; use fewer, and reuse them.")
        }
    }

    func place(of peer: NetworkRequests) -> String { "" }

    func admit(_ sender: GatewaySender, to route: GatewayRoute, _ head: RequestHead) throws(GatewayRefusal) {
        guard sender.client?.has(route.access.operation) == true else {
            throw GatewayRefusal(
                .daemon(.forbidden),
                "This client may not do this; its entry in the gateway's configuration lists its operations.",
                details: "the operation \(route.access.operation.rawValue)")
        }
        try head.requireNoQuery()
    }

    private func known(_ head: RequestHead, _ peer: NetworkPeer) throws(GatewayRefusal) -> GatewayClient {
        let authorization = Authorization(head.values(of: "authorization"))
        let (clients, certificate, now) = (clients.current, peer.certificate, Date())
        if let client = clients.client(for: authorization, certificate: certificate, at: now) { return client }
        let reason = certificate?.identificationFault(at: now, under: clients.generation)
        throw GatewayRefusal(
            .unauthorized,
            "The gateway does not know this client; send the header Authorization: Bearer KEY, or use a known client certificate.",
            details: authorization == .absent
                ? reason.map { "the client certificate is not known: \($0)" }
                    ?? "no bearer key and no client certificate"
                : "the bearer key is not known")
    }

    func respond(
        to head: RequestHead, body: [UInt8], arguments: [String], from peer: NetworkRequests, by route: GatewayRoute,
        _ entry: RequestLog.Entry<GatewaySender>, _ log: RequestLog
    ) async -> HTTPAnswer {
        let answering = Task.onSameExecutor {
            do throws(GatewayRefusal) {
                guard let client = entry.sender.client else { throw .defect }
                let request = GatewayRequest(
                    client: client, pathArguments: arguments, body: body, trace: entry.sender.trace,
                    origin: head.origin)
                return Result<EndpointAnswer, GatewayRefusal>.success(try await route.respond(request))
            } catch {
                return .failure(error)
            }
        }
        let late = GatewayRefusal(
            .daemon(.deadlineExceeded), "The request was not finished in time; parts of it may have been carried out.")
        let result = await answering.value(within: route.access.timeLimit ?? requestTimeout) ?? .failure(late)
        answering.cancel()
        switch result {
        case .success(let answer):
            log.finish(entry, answer: answer)
            return answer.http
        case .failure(let refusal):
            log.finish(entry, refusal: refusal)
            return refusal.answer(as: route.form)
        }
    }
}

typealias MerchantRouter = Router<MerchantRules>

extension GatewayRefusal {
    fileprivate static func tooMany(_ message: String, retryAfter: Int? = nil) -> GatewayRefusal {
        var refusal = GatewayRefusal(.rateLimited, message, retryAfter: retryAfter)
        refusal.endsConnection = true
        return refusal
    }
}
