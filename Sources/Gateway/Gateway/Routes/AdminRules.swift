import AccessControl
import HTTPListener
import NIOCore
import Refusals
import Telemetry

/// Routes the admin socket's requests. Its mode and group say which accounts can connect, `admin.access` what they may do.
struct AdminRouter: Sendable {
    let routes: [AdminRoute]
    /// `admin.access` in force, which a reload replaces.
    let access: @Sendable () -> AdminAccess
    let log: GatewayRequestLog

    func admit(_ head: RequestHead, peer: PeerCredentials) -> Admission {
        let here = RoutePath.routes(routes, at: head.path, by: \.path)
        let entry = GatewayRequestLog.Entry(
            endpoint: here.first?.route.path.text ?? "other", address: "admin", source: .user(peer.uid),
            trace: TraceContext(traceparent: head.values(of: "traceparent")), peer: peer)
        let rule = access().rule(for: peer)
        do throws(GatewayRefusal) {
            if rule == nil, !here.contains(where: { $0.route.role == nil }) { throw .noRule(for: peer) }
            guard !here.isEmpty else {
                throw GatewayRefusal(.daemon(.notFound), "There is nothing at this path on the admin socket.")
            }
            guard let (route, parameters) = here.first(where: { $0.route.method == head.method }) else {
                throw .methodNotAllowed(of: here.map(\.route.method))
            }
            if let role = route.role, rule?.gives(role) != true { throw .missing(role, of: peer) }
            try head.requirePlain(takesBody: route.bodyLimit > 0)
            return .accept(bodyLimit: route.bodyLimit) { [log] body in
                do throws(GatewayRefusal) {
                    let answer = try await route.respond(
                        AdminRequest(
                            peer: peer, isMatched: rule != nil, parameters: parameters, body: body, trace: entry.trace))
                    log.finish(entry, answer: answer, isRoutine: route.bodyLimit == 0)
                    return answer.http
                } catch {
                    log.finish(entry, refusal: error)
                    return HTTPAnswer(error)
                }
            }
        } catch {
            log.finishHead(entry, refusal: error)
            return .refuse(HTTPAnswer(error, knowing: here.map(\.route.method)))
        }
    }

    func answer(for refusal: Refusal) -> HTTPAnswer {
        log.count(refusal.code.rawValue, of: "listener")
        return HTTPAnswer(GatewayRefusal(refusal))
    }
}

extension GatewayRefusal {
    fileprivate static func noRule(for peer: PeerCredentials) -> GatewayRefusal {
        GatewayRefusal(
            .daemon(.forbidden), "No rule of admin.access matches this account.",
            details: "uid \(peer.uid), gid \(peer.gid)")
    }

    fileprivate static func missing(_ role: AdminRole, of peer: PeerCredentials) -> GatewayRefusal {
        GatewayRefusal(
            .daemon(.forbidden),
            "This account's rule in admin.access does not give it the role \(role.rawValue), which this needs.",
            details: "uid \(peer.uid), gid \(peer.gid)")
    }
}

/// One connection's requests, with what the kernel says of its peer.
private struct AdminPeerRequests: RequestHandler {
    let peer: PeerCredentials
    let router: AdminRouter

    func admit(_ head: RequestHead) -> Admission { router.admit(head, peer: peer) }
    func answer(for refusal: Refusal) -> HTTPAnswer { router.answer(for: refusal) }
}

/// The connections of the admin socket.
struct AdminConnections: ConnectionService {
    let router: AdminRouter
    let instruments: GatewayInstruments

    func accept(_ connection: CInt, from _: ArrivingPeer) throws -> AcceptedConnection {
        try UnnamedShares(total: ConnectionLimits.Maximum.administration.total).accept(
            connection, counting: router.access().unnamedAccounts
        ) {
            AdminPeerRequests(peer: $0, router: router)
        }
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}
