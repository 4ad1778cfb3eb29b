import DaemonAPI
import GatewayAPI
import Refusals
import ServerProgram

/// `POST /merchant-sessions`, and the check on the admin socket.
struct SessionRoutes: Sendable {
    let sessions: MerchantSessions
    private let slots = ClientSlots(maximumOfClient)
    private let bodyLimit: Int

    /// The maximum number of sessions of one client in progress: a quarter of the connections to Apple's host. If each
    /// session takes a third of a second, a client can request about fifty sessions per second.
    static let maximumOfClient = 16

    /// The maximum size of a body, in bytes. Most bodies have about 200 bytes; the limit leaves room for a URL and a
    /// name of four-byte characters.
    static let bodyLimit = 4 << 10

    /// - Parameter maxRequestBytes: `listener.max_request_bytes`. It replaces ``bodyLimit`` if it is lower.
    init(sessions: MerchantSessions, maxRequestBytes: Int) {
        self.sessions = sessions
        bodyLimit = min(Self.bodyLimit, maxRequestBytes)
    }

    var routes: [GatewayRoute] {
        [
            GatewayRoute(
                "POST", "/merchant-sessions", operation: .session, bodyLimit: bodyLimit, respond: session)
        ]
    }

    var adminRoutes: [AdminRoute] {
        [AdminRoute("POST", "/v1/session-check", access: .support, bodyLimit: Self.bodyLimit, respond: check)]
    }

    private func session(_ request: GatewayRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let wanted: MerchantSessionRequest
        let domain: DomainName?
        do throws(Refusal) {
            wanted = try await request.reading { body throws(Refusal) in try MerchantSessionRequest(parsing: body) }
            domain = try wanted.context().domain
        } catch { throw GatewayRefusal(error) }
        guard request.client.allows(merchant: wanted.merchantIdentifier) else {
            throw GatewayRefusal(
                .daemon(.forbidden), "This client may not act for this merchant: clients[].merchants does not list it.",
                details: "merchantIdentifier")
        }
        // The domain of a web session, or the host of a messaging URL, must be one of the client's domains. An app's
        // session has no domain.
        if let domain, !request.client.allows(domain: domain.name) {
            throw GatewayRefusal(
                .daemon(.forbidden), "This client may not use this domain: clients[].domains does not list it.",
                details: "initiativeContext")
        }
        guard slots.take(request.client.name) else {
            throw GatewayRefusal(
                .rateLimited,
                "This client requests too many merchant sessions at once; wait until one of them is finished.",
                details: "\(Self.maximumOfClient) at once")
        }
        defer { slots.leave(request.client.name) }
        do throws(SessionFailure) {
            let session = try await sessions.session(
                wanted, for: request.client.name, traceparent: request.trace.traceparent)
            return .bytes(session.body, contentType: session.contentType)
        } catch { throw error.answer }
    }

    private func check(_ request: AdminRequest) async throws(GatewayRefusal) -> EndpointAnswer {
        let answer: SessionCheckAnswer
        do throws(Refusal) {
            answer = try await sessions.check(
                SessionCheckRequest(parsing: request.body), traceparent: request.trace.traceparent)
        } catch { throw GatewayRefusal(error) }
        var shown = try EndpointAnswer.json(answer)
        shown.outcome = answer.code ?? "ok"
        return shown
    }
}
