import AccessControl
import HTTPListener
import Logging
import NIOCore

/// The daemon's socket that a request came through.
enum SocketKind: String, CaseIterable, Sendable {
    case payments = "paytokend"
    case admin
}

/// Answers the requests of both sockets; ``DaemonRouter`` in production.
protocol PeerRequestHandler: Sendable {
    /// Called when the head has arrived, before the body is read. Returns a refusal, or the handler of the body. Runs
    /// on the event loop, so it must neither wait nor compute for long.
    func admit(_ head: RequestHead, peer: PeerCredentials, socket: SocketKind) -> Admission

    /// Returns the group of accounts that the peer's connections count for; nil for an account that a rule names.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts?

    /// Returns the answer to a condition that the listener detects.
    func answer(to condition: HTTPCondition, peer: PeerCredentials, socket: SocketKind) -> HTTPAnswer
}

extension PeerRequestHandler {
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? { nil }
}

/// The requests of one connection, with the kernel's credentials of its peer.
private struct PeerRequests: RequestHandler {
    let peer: PeerCredentials
    let socket: SocketKind
    let handler: any PeerRequestHandler

    func admit(_ head: RequestHead) -> Admission { handler.admit(head, peer: peer, socket: socket) }
    func answer(to condition: HTTPCondition) -> HTTPAnswer {
        handler.answer(to: condition, peer: peer, socket: socket)
    }
}

/// The connections of one Unix socket, counted by the peer's uid and, if the rule that admits it names no user, by that
/// rule.
struct PeerConnections: ConnectionService {
    let socket: SocketKind
    let handler: any PeerRequestHandler
    let instruments: Instruments
    let shares: UnnamedShares

    func accept(_ connection: CInt, from _: ArrivingPeer) throws -> AcceptedConnection {
        try shares.accept(connection, counting: handler.unnamedAccounts) { peer in
            PeerRequests(peer: peer, socket: socket, handler: handler)
        }
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}

extension ListenerSettings {
    /// The daemon's sockets, the payments socket first.
    ///
    /// - Parameter requestLimits: shorter limits for tests.
    func sockets(
        inherited: InheritedSockets = .init(), handler: any PeerRequestHandler, instruments: Instruments,
        logger: Logger, requestLimits: RequestLimits? = nil
    ) throws(ListenerError) -> [ListeningSocket] {
        let connections = DescriptorLimit.connections("listener.max_connections", maxConnections, logger)
        let limits = requestLimits ?? RequestLimits(idle: TimeAmount(idleTimeout))
        return try SocketKind.allCases.map { kind throws(ListenerError) in
            let maximum = maximum(kind, all: connections)
            return ListeningSocket(
                name: kind.rawValue, place: try place(of: kind, inherited),
                service: PeerConnections(
                    socket: kind, handler: handler, instruments: instruments,
                    shares: UnnamedShares(total: maximum.total)),
                connectionLimits: ConnectionLimits(maximum),
                // Administration may take long, with lists of thousands of keys, and must not delay payments.
                answersOnEventLoop: kind == .payments, limits: limits)
        }
    }

    private func maximum(_ kind: SocketKind, all: Int) -> ConnectionLimits.Maximum {
        var maximum = ConnectionLimits.Maximum(total: all, perSource: maxConnectionsPerUID)
        guard kind == .admin else { return maximum }
        let administration = ConnectionLimits.Maximum.administration
        maximum.total = min(all, administration.total)
        maximum.perSource = min(maximum.perSource, administration.perSource)
        maximum.reserved = administration.reserved
        return maximum
    }

    private func place(
        of kind: SocketKind, _ inherited: InheritedSockets
    ) throws(ListenerError) -> ListeningSocket.Place {
        if let socket = inherited[kind.rawValue] {
            // The kernel vouches for the caller's identity on a Unix socket only.
            guard case .unix = socket.address else {
                throw .unusable(
                    "the inherited socket \(kind.rawValue) listens at \(socket.address.text); use ListenStream= with a "
                        + "path in the socket unit")
            }
            return .inherited(socket)
        }
        return switch kind {
        case .payments: .path(socket, mode: mode, group: group)
        case .admin: .path(adminSocket, mode: adminMode, group: nil)
        }
    }
}
