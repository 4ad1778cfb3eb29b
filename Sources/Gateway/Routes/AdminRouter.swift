import HTTPListener
import NIOCore
import Refusals
import Telemetry

/// The admin socket: whoever may open it (`admin.mode`) may ask everything there.
struct AdminRouter: RequestHandler {
    let routes: [AdminRoute]
    let log: GatewayRequestLog
    /// Who is at the other end of the connection.
    var uid: UInt32 = .max

    func admit(_ head: RequestHead) -> Admission {
        let here = routes.compactMap { route in route.path.match(head.path).map { (route: route, parameters: $0) } }
        let entry = GatewayRequestLog.Entry(
            endpoint: here.first?.route.path.text ?? "other", address: "admin", source: .client("admin"),
            trace: TraceContext(traceparent: head.values(of: "traceparent")))
        do throws(GatewayRefusal) {
            guard !here.isEmpty else {
                throw GatewayRefusal(.daemon(.notFound), "There is nothing at this path on the admin socket.")
            }
            guard let (route, parameters) = here.first(where: { $0.route.method == head.method }) else {
                throw .methodNotAllowed(of: here.map(\.route.method))
            }
            try head.requirePlain(takesBody: route.bodyLimit > 0)
            return .accept(bodyLimit: route.bodyLimit) { [log, uid] body in
                do throws(GatewayRefusal) {
                    let answer = try await route.respond(
                        AdminRequest(uid: uid, parameters: parameters, body: body, trace: entry.trace))
                    log.finish(entry, answer: answer, isRoutine: route.bodyLimit == 0)
                    return answer.http
                } catch {
                    log.finish(entry, refusal: error)
                    return HTTPAnswer(error)
                }
            }
        } catch {
            log.finish(entry, refusal: error)
            return .refuse(HTTPAnswer(error, knowing: here.map(\.route.method)))
        }
    }

    func answer(for refusal: Refusal) -> HTTPAnswer {
        log.count(refusal.code.rawValue, of: "listener")
        return HTTPAnswer(GatewayRefusal(refusal))
    }
}

/// The connections of the admin socket, counted by the peer's uid.
struct AdminConnections: ConnectionService {
    let router: AdminRouter
    let instruments: GatewayInstruments

    /// Administration needs few connections; root and the gateway's own user find room when others have filled the socket.
    static let maximum = ConnectionLimits.Maximum(total: 64, perSource: 16, reserved: 8)

    func accept(_ channel: any Channel) throws -> AcceptedConnection {
        var router = router
        router.uid = try UnixSocketPeer.uid(of: channel)
        return AcceptedConnection(source: .user(router.uid), handler: router)
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}
