import AccessControl
import DaemonConfiguration
import HTTPListener
import Logging
import NIOCore

/// The socket through which a request came.
enum SocketKind: String, CaseIterable, Sendable {
    case payments = "paytokend"
    case admin
}

/// Answers the requests of both sockets. ``DaemonRouter`` is the implementation outside tests.
protocol PeerRequestHandler: Sendable {
    /// Returns a refusal, or the handler of the body. The listener calls this function when the head has arrived, and
    /// reads the body afterwards. The function runs on the event loop, so it must not block or compute for long.
    func admit(_ head: RequestHead, from peer: DaemonPeer) -> Admission

    /// Returns the group of accounts that share one limit of connections with the peer. Returns nil if the peer's rule
    /// names its user; then only the limit for each uid applies.
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts?

    /// Returns the answer to a condition that the listener itself detects, such as a malformed head.
    func answer(to condition: HTTPCondition, from peer: DaemonPeer) -> HTTPAnswer
}

extension PeerRequestHandler {
    func unnamedAccounts(of peer: PeerCredentials) -> UnnamedAccounts? { nil }
}

/// The peer of a connection, and the socket that accepted the connection.
struct DaemonPeer: Sendable {
    let credentials: PeerCredentials
    let socket: SocketKind
}

/// Passes the requests of one connection to the handler, with the peer's credentials from the kernel.
private struct PeerRequests: RequestHandler {
    let peer: DaemonPeer
    let handler: any PeerRequestHandler

    func admit(_ head: RequestHead) -> Admission { handler.admit(head, from: peer) }
    func answer(to condition: HTTPCondition) -> HTTPAnswer { handler.answer(to: condition, from: peer) }
}

/// Accepts the connections of one Unix socket. The number of connections is limited for each uid. It is also limited
/// for all accounts together that one rule admits by a group alone, and for all accounts together that no rule admits.
struct PeerConnections: ConnectionService {
    let socket: SocketKind
    let handler: any PeerRequestHandler
    let instruments: Instruments
    let shares: UnnamedShares

    func accept(_ connection: CInt, from _: ArrivingPeer) throws -> AcceptedConnection {
        try shares.accept(connection, counting: handler.unnamedAccounts) { peer in
            PeerRequests(peer: DaemonPeer(credentials: peer, socket: socket), handler: handler)
        }
    }

    func connectionsChanged(by difference: Int) { instruments.connections.add(Double(difference)) }
}

extension ListenerSettings {
    /// Returns the daemon's sockets, the payments socket first.
    ///
    /// - Parameter requestLimits: the limits for requests; nil for the configured ones. Tests set shorter limits.
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
                // Requests of administration may take long (lists of thousands of keys). On the event loop they would delay
                // payments.
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
            // The kernel reports the caller's identity only for a Unix socket.
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
