import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Refusals

/// The daemon's two listening sockets and the connections that came through them.
///
/// `DaemonProgram` starts it last and shuts it down first. It reads HTTP/1.1 requests from local processes that nobody has
/// authenticated yet, and hands each, whole and bounded, with what the kernel says of its peer, to a ``RequestHandler``
/// (`Router` in production). Guaranteed here: no connection takes more than its share (ConnectionLimits.swift), no request
/// more memory or time than its limits (BoundedInput.swift, ConnectionHandler.swift), two readers cannot disagree about
/// where a request ends (MessageFraming.swift), and at the end every request that was begun is answered or given up within
/// the grace.
///
/// Start reading at RequestHandler.swift, what the handler sees; then ConnectionHandler.swift, one connection's life.
final class Listener: Sendable {
    /// One listening socket while it is open.
    private struct Opening: Sendable {
        let channel: any Channel
        /// nil for an inherited socket: its file is its owner's.
        let file: SocketFile?
        let connectionLimits: ConnectionLimits
    }

    private let openings: [Opening]
    private let logger: Logger

    private init(openings: [Opening], logger: Logger) {
        self.openings = openings
        self.logger = logger
    }

    /// Administration needs few connections, and needs them when the payments socket is flooded, or when one user who may
    /// connect opens as many as the daemon lets him.
    private static let administration = ConnectionLimits.Maximum(total: 64, perUID: 16, reserved: 8)

    /// Binds the sockets that were not inherited, and serves until ``shutdown(grace:)``.
    /// - Parameter requestLimits: for tests that cannot wait.
    /// - Throws: ``ListenerError``; on `.alreadyServed` the daemon exits with status 75.
    static func start(
        settings: ListenerSettings, inherited: InheritedSockets = .init(), handler: any RequestHandler,
        instruments: Instruments, group: any EventLoopGroup, logger: Logger,
        requestLimits: ConnectionHandler.Limits? = nil
    ) async throws(ListenerError) -> Listener {
        let limit = DescriptorLimit.raise()
        let connections = DescriptorLimit.connections(wanted: settings.maxConnections, limit: limit)
        if connections < settings.maxConnections {
            logger.warning(
                "listener.max_connections does not fit under the descriptor limit; raise LimitNOFILE",
                metadata: ["wanted": "\(settings.maxConnections)", "served": "\(connections)", "limit": "\(limit)"])
        }
        let limits = requestLimits ?? .init(idle: TimeAmount(settings.idleTimeout))
        var openings: [Opening] = []
        do throws(ListenerError) {
            for kind in SocketKind.allCases {
                let (descriptor, file) = try descriptor(for: kind, settings: settings, inherited: inherited)
                let connectionLimits = ConnectionLimits(maximum(kind, settings, all: connections))
                let acceptor = ConnectionAcceptor(
                    socket: kind, connectionLimits: connectionLimits, handler: handler, limits: limits,
                    instruments: instruments)
                do {
                    let channel = try await acceptor.bootstrap(group: group).withBoundSocket(descriptor).get()
                    // NIO has called listen once more, with 128; past that, callers that do not block get EAGAIN.
                    _ = listen(descriptor, SocketFile.backlog)
                    openings.append(Opening(channel: channel, file: file, connectionLimits: connectionLimits))
                } catch {
                    file?.unlinkIfOurs()
                    throw ListenerError.unusable("cannot accept connections on the \(kind.rawValue) socket: \(error)")
                }
            }
        } catch {
            for opening in openings {
                opening.file?.unlinkIfOurs()
                try? await opening.channel.close()
            }
            throw error
        }
        return Listener(openings: openings, logger: logger)
    }

    private static func maximum(
        _ kind: SocketKind, _ settings: ListenerSettings, all: Int
    ) -> ConnectionLimits.Maximum {
        var maximum = ConnectionLimits.Maximum(total: all, perUID: settings.maxConnectionsPerUID)
        guard kind == .admin else { return maximum }
        maximum.total = min(all, administration.total)
        maximum.perUID = min(maximum.perUID, administration.perUID)
        maximum.reserved = administration.reserved
        return maximum
    }

    private static func descriptor(
        for kind: SocketKind, settings: ListenerSettings, inherited: InheritedSockets
    ) throws(ListenerError) -> (descriptor: CInt, file: SocketFile?) {
        if let descriptor = inherited.descriptors[kind] { return (descriptor, nil) }
        let (descriptor, file) =
            switch kind {
            case .payments:
                try SocketFile.listen(path: settings.socket, mode: settings.mode, group: settings.group)
            case .admin: try SocketFile.listen(path: settings.adminSocket, mode: settings.adminMode, group: nil)
            }
        return (descriptor, file)
    }

    /// Stops accepting, closes idle connections, lets the others finish their request for at most `grace`, closes what
    /// is left, and unlinks the socket files that are still ours. Returns when nothing is open any more.
    func shutdown(grace: Duration = .seconds(30)) async {
        for opening in openings {
            opening.file?.unlinkIfOurs()
            try? await opening.channel.close()
            for channel in opening.connectionLimits.drain() {
                channel.pipeline.fireUserInboundEventTriggered(ConnectionHandler.Drain())
            }
        }
        let end = ContinuousClock.now + grace
        while openings.contains(where: { !$0.connectionLimits.served.isEmpty }), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(10))
        }
        let left = openings.flatMap(\.connectionLimits.served)
        if !left.isEmpty {
            logger.warning(
                "closing connections whose requests did not finish in time", metadata: ["connections": "\(left.count)"])
        }
        for channel in left { try? await channel.close() }
    }
}

/// Why the daemon cannot listen.
enum ListenerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A daemon answers on this socket; nothing was unlinked. Exit status 75.
    case alreadyServed(path: String)
    /// Anything else: what failed, with what, and what to do.
    case unusable(String)

    var description: String {
        switch self {
        case .alreadyServed(let path):
            "another daemon already serves \(path); stop it first, or configure another path"
        case .unusable(let what): what
        }
    }
}
