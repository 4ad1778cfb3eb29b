import HTTPListener
import NIOCore
import Refusals

/// The admin socket: whoever may open it (`admin.mode`) may ask everything there.
struct AdminRouter: RequestHandler {
    let routes: [AdminRoute]
    let log: GatewayRequestLog

    func admit(_ head: RequestHead) -> Admission {
        let here = routes.filter { $0.path == head.path }
        let entry = GatewayRequestLog.Entry(
            endpoint: here.first?.path ?? "other", address: "admin",
            trace: TraceContext(traceparent: head.values(of: "traceparent")))
        do throws(GatewayRefusal) {
            guard !here.isEmpty else {
                throw GatewayRefusal(.daemon(.notFound), "There is nothing at this path on the admin socket.")
            }
            guard let route = here.first(where: { $0.method == head.method }) else {
                throw GatewayRefusal(
                    .daemon(.methodNotAllowed), "This path does not know this method.",
                    details: "it knows \(here.map(\.method).sorted().joined(separator: ", "))")
            }
            guard head.query.isEmpty else {
                throw GatewayRefusal(.daemon(.malformedRequest), "This path takes no query; leave it out.")
            }
            if route.bodyLimit > 0, head.contentType != "application/json" {
                throw GatewayRefusal(
                    .daemon(.unsupportedMediaType),
                    "The body must be JSON, with the header Content-Type: application/json.")
            }
            return .accept(bodyLimit: route.bodyLimit) { [log] body in
                do throws(GatewayRefusal) {
                    let answer = try await route.respond(AdminRequest(body: body, trace: entry.trace))
                    log.finish(entry, answer: answer, isRoutine: route.bodyLimit == 0)
                    return answer.http
                } catch {
                    log.finish(entry, refusal: error)
                    return HTTPAnswer(error)
                }
            }
        } catch {
            log.finish(entry, refusal: error)
            return .refuse(HTTPAnswer(error))
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
        AcceptedConnection(source: .user(try UnixSocketPeer.uid(of: channel)), handler: router)
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}
