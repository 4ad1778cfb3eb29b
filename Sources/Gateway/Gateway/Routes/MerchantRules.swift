import Foundation
import HTTPListener
import Refusals
import Telemetry

/// From a request's head to the route that answers it.
///
/// What is guaranteed here, before a byte of the body is read, in this order: the client is known by its bearer key or its
/// certificate, its rate and its connections are within their limits, the path exists and knows the method, and the client
/// has the route's operation. Merchant and domain stand in the body, so a route asks the client for them. Each request is
/// logged and counted once, and a refusal becomes an answer in one place (GatewayRefusal.swift).
struct GatewayRouter: Sendable {
    let routes: [GatewayRoute]
    let clients: CurrentClients
    let rates: RequestRates
    let log: GatewayRequestLog
    /// From a request's last byte to its answer.
    let requestTimeout: Duration

    /// - Parameter takesPlace: counts the connection as the client's; false when the client has too many.
    func admit(
        _ head: RequestHead, peer: NetworkPeer, takesPlace: (GatewayClient) -> Bool
    ) -> Admission {
        let trace = TraceContext(traceparent: head.values(of: "traceparent"))
        let here = RoutePath.routes(routes, at: head.path, by: \.path)
        let chosen = here.first { $0.route.method == head.method }
        var entry = GatewayRequestLog.Entry(
            endpoint: chosen?.route.path.text ?? "other", address: peer.address, source: peer.source, trace: trace)
        do throws(GatewayRefusal) {
            let client = try known(head, peer)
            entry.client = client.name
            if let seconds = rates.secondsToWait(client.name) {
                throw GatewayRefusal(
                    .rateLimited, "This client makes more requests than it may; make fewer, or try again later.",
                    retryAfter: seconds)
            }
            guard takesPlace(client) else {
                throw GatewayRefusal(
                    .rateLimited,
                    "This client, or all clients together, have more connections than they may; use fewer, and keep them."
                )
            }
            guard !here.isEmpty else {
                throw GatewayRefusal(.daemon(.notFound), "There is nothing at this path.")
            }
            guard let (route, parameters) = chosen else {
                throw .methodNotAllowed(of: here.map(\.route.method))
            }
            guard client.has(route.operation) else {
                throw GatewayRefusal(
                    .daemon(.forbidden),
                    "This client may not do this; its entry in the gateway's configuration says what it may.",
                    details: "the operation \(route.operation.rawValue)")
            }
            try head.requirePlain(takesBody: route.bodyLimit > 0, form: route.form)
            return .accept(bodyLimit: route.bodyLimit) { [entry] body in
                await respond(
                    to: GatewayRequest(client: client, parameters: parameters, body: body, trace: trace), route, entry)
            }
        } catch {
            log.finishHead(entry, refusal: error)
            var answer = HTTPAnswer(
                error, knowing: here.map(\.route.method), as: here.first?.route.form ?? .json)
            // A client that floods is not to come back on the same connection at once.
            if error.code == .rateLimited { answer.closes = true }
            return .refuse(answer)
        }
    }

    func answer(for refusal: Refusal, peer: NetworkPeer) -> HTTPAnswer {
        log.count(refusal.code.rawValue, of: "listener")
        return HTTPAnswer(GatewayRefusal(refusal))
    }

    private func known(_ head: RequestHead, _ peer: NetworkPeer) throws(GatewayRefusal) -> GatewayClient {
        let authorization = Authorization(head.values(of: "authorization"))
        let (clients, certificate, now) = (clients.current, peer.certificate, Date())
        if let client = clients.client(for: authorization, certificate: certificate, at: now) { return client }
        let reason = certificate?.whyUnknown(at: now, under: clients.generation)
        throw GatewayRefusal(
            .unauthorized,
            "The gateway does not know this client; send the header Authorization: Bearer KEY, or use a known client certificate.",
            details: authorization == .absent
                ? reason.map { "the client certificate is not known: \($0)" }
                    ?? "no bearer key and no client certificate"
                : "the bearer key is not known")
    }

    private func respond(
        to request: GatewayRequest, _ route: GatewayRoute, _ entry: GatewayRequestLog.Entry
    ) async -> HTTPAnswer {
        let answering = Task {
            do throws(GatewayRefusal) {
                return Result<GatewayAnswer, GatewayRefusal>.success(try await route.respond(request))
            } catch {
                return .failure(error)
            }
        }
        let late = GatewayRefusal(
            .daemon(.deadlineExceeded), "The answer did not come in time; what was asked of others may have been done.")
        let result = await answering.value(within: route.timeLimit ?? requestTimeout) ?? .failure(late)
        answering.cancel()
        switch result {
        case .success(let answer):
            log.finish(entry, answer: answer)
            return answer.http
        case .failure(let refusal):
            log.finish(entry, refusal: refusal)
            return HTTPAnswer(refusal, as: route.form)
        }
    }
}
