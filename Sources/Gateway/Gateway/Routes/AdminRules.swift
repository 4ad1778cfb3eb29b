import AccessControl
import HTTPListener
import NIOCore
import Refusals
import ServerProgram
import Telemetry

/// The rights of the admin socket's peers. The socket's mode and group decide which accounts can connect, and
/// `admin.access` decides what each account may do.
struct AdminRules: RouterRules {
    /// The current `admin.access`, which a reload replaces.
    let access: @Sendable () -> AdminAccess

    func sender(of head: RequestHead, from peer: PeerCredentials) -> GatewaySender {
        GatewaySender(
            address: "admin", source: .user(peer.uid),
            trace: TraceContext(traceparent: head.values(of: "traceparent")), peer: peer,
            rule: access().rule(for: peer))
    }

    func identify(
        _ sender: inout GatewaySender, by head: RequestHead, from peer: PeerCredentials, here: [AdminRoute],
        route: AdminRoute?
    ) throws(GatewayRefusal) {
        if sender.rule == nil, !here.contains(where: { $0.access == nil }) { throw .noRule(for: peer) }
    }

    func place(of peer: PeerCredentials) -> String { " on the admin socket" }

    func admit(_ sender: GatewaySender, to route: AdminRoute, _ head: RequestHead) throws(GatewayRefusal) {
        if let role = route.access, sender.rule?.gives(role) != true, let peer = sender.peer {
            throw .missing(role, of: peer)
        }
        try head.requireNoQuery()
    }

    func respond(
        to head: RequestHead, body: [UInt8], arguments: [String], from peer: PeerCredentials, by route: AdminRoute,
        _ entry: RequestLog.Entry<GatewaySender>, _ log: RequestLog
    ) async -> HTTPAnswer {
        do throws(GatewayRefusal) {
            let answer = try await route.respond(
                AdminRequest(
                    peer: peer, isMatched: entry.sender.rule != nil, pathArguments: arguments, body: body,
                    trace: entry.sender.trace))
            log.finish(entry, answer: answer, isRoutine: route.bodyLimit == 0)
            return answer.http
        } catch {
            log.finish(entry, refusal: error)
            return error.answer(as: route.form)
        }
    }
}

typealias AdminRouter = Router<AdminRules>

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

/// Handles one connection's requests, with the peer credentials from the kernel.
private struct AdminPeerRequests: RequestHandler {
    let peer: PeerCredentials
    let router: AdminRouter

    func admit(_ head: RequestHead) -> Admission { router.admit(head, from: peer) }
    func answer(to condition: HTTPCondition) -> HTTPAnswer { router.answer(to: condition, from: peer) }
}

/// Accepts the connections of the admin socket. Limits the connections of all accounts that no rule names.
struct AdminConnections: ConnectionService {
    let router: AdminRouter
    let instruments: GatewayInstruments

    func accept(_ connection: CInt, from _: ArrivingPeer) throws -> AcceptedConnection {
        try UnnamedShares(total: ConnectionLimits.Maximum.administration.total).accept(
            connection, counting: router.rules.access().unnamedAccounts
        ) {
            AdminPeerRequests(peer: $0, router: router)
        }
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}
