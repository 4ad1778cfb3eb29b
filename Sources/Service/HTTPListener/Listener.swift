import Glibc
package import HostSystem
import Locks
package import Logging
package import NIOCore
import NIOHTTP1
import NIOPosix

/// A socket to listen on, and the way in which its connections are served.
package struct ListeningSocket: Sendable {
    package enum Place: Sendable {
        /// A socket that is already bound and listening; its file belongs to its owner.
        case inherited(InheritedSocket)
        case path(String, mode: UInt32, group: Account?)
        case network(SocketAddress)
    }

    /// The socket's name in messages.
    package let name: String
    package let place: Place
    package let service: any ConnectionService
    package let connectionLimits: ConnectionLimits
    /// True if requests are answered on their connection's event loop. This is only for answers that never take long.
    package let answersOnEventLoop: Bool
    package let limits: RequestLimits

    package init(
        name: String, place: Place, service: any ConnectionService, connectionLimits: ConnectionLimits,
        answersOnEventLoop: Bool, limits: RequestLimits
    ) {
        self.name = name
        self.place = place
        self.service = service
        self.connectionLimits = connectionLimits
        self.answersOnEventLoop = answersOnEventLoop
        self.limits = limits
    }
}

/// Listening sockets, and the connections accepted from them.
///
/// A program starts it last and shuts it down first. It reads HTTP/1.1 requests from peers that are not authenticated yet,
/// and passes each, complete and bounded, to the ``RequestHandler`` that its ``ConnectionService`` provided for the peer.
/// Guarantees: no connection takes more than its share (ConnectionLimits.swift), and no request more memory or time than its
/// limits (BoundedInput.swift, ConnectionHandler.swift). Two readers cannot disagree about the end of a request
/// (MessageFraming.swift). At shutdown every request that was begun is answered or abandoned within the grace period.
///
/// Begin with RequestHandler.swift, the interface to the program; then ConnectionHandler.swift, the life of one connection.
package final class Listener: Sendable {
    /// One listening socket while it is open.
    private struct Opening: Sendable {
        let acceptor: SocketAcceptor
        /// The socket's file; nil if the service manager owns it, and for a network socket.
        let file: SocketFile?
        let connectionLimits: ConnectionLimits
    }

    private let openings: [Opening]
    private let group: any EventLoopGroup
    private let turns: ListenerTurns
    private let logger: Logger

    /// The addresses of the network sockets, in the order in which they were opened. For port 0 they contain the port that
    /// the system chose.
    package var networkAddresses: [NetworkAddress] {
        openings.compactMap { if case .network(let address) = $0.acceptor.address { address } else { nil } }
    }

    /// The paths of the Unix sockets, including inherited ones, in the order in which they were opened.
    package var socketPaths: [String] {
        openings.compactMap { if case .unix(let path) = $0.acceptor.address { path } else { nil } }
    }

    /// The socket that a ``ServiceWatchdog`` queries: the first of the Unix sockets.
    package var watchedSocket: WatchedSocket? {
        openings.lazy.compactMap { opening in
            guard case .unix(let path) = opening.acceptor.address else { return nil }
            return WatchedSocket(path: path, isInherited: opening.file == nil)
        }.first
    }

    private init(openings: [Opening], group: any EventLoopGroup, turns: ListenerTurns, logger: Logger) {
        self.openings = openings
        self.group = group
        self.turns = turns
        self.logger = logger
    }

    /// Opens the sockets in this order, and serves until ``shutdown(grace:)``. If one cannot be opened, the others are closed
    /// again and their files removed.
    package static func start(
        _ sockets: [ListeningSocket], group: any EventLoopGroup, logger: Logger
    ) async throws(ListenerError) -> Listener {
        let turns: ListenerTurns
        do {
            turns = try await ListenerTurns.start(on: group)
        } catch {
            throw .unusable("cannot prepare the event loops for connections: \(error)")
        }
        var openings: [Opening] = []
        do throws(ListenerError) {
            for socket in sockets { openings.append(try open(socket, group: group, turns: turns)) }
        } catch {
            for opening in openings {
                opening.file?.unlinkIfOurs()
                opening.acceptor.stop()
            }
            turns.stop()
            throw error
        }
        return Listener(openings: openings, group: group, turns: turns, logger: logger)
    }

    private static func open(
        _ socket: ListeningSocket, group: any EventLoopGroup, turns: ListenerTurns
    ) throws(ListenerError) -> Opening {
        let acceptor = ConnectionAcceptor(
            service: socket.service, connectionLimits: socket.connectionLimits, limits: socket.limits,
            answersOnEventLoop: socket.answersOnEventLoop, turns: turns)
        let (descriptor, address, file) = try listen(on: socket.place, named: socket.name)
        let isInherited = if case .inherited = socket.place { true } else { false }
        do throws(SystemError) {
            let accepting = try SocketAcceptor(
                descriptor, at: address, isInherited: isInherited, acceptor: acceptor, eventLoops: group)
            accepting.start()
            return Opening(acceptor: accepting, file: file, connectionLimits: socket.connectionLimits)
        } catch {
            file?.unlinkIfOurs()
            throw .unusable("cannot accept connections on the \(socket.name) socket: \(error)")
        }
    }

    private static func listen(
        on place: ListeningSocket.Place, named name: String
    ) throws(ListenerError) -> (CInt, InheritedSocket.Address, SocketFile?) {
        switch place {
        case .inherited(let inherited): return (inherited.descriptor, inherited.address, nil)
        case .path(let path, let mode, let owner):
            let (descriptor, file) = try SocketFile.listen(path: path, mode: mode, group: owner)
            return (descriptor, .unix(path: path), file)
        case .network(let address):
            let (descriptor, served) = try NetworkAddress.listen(at: address, named: name)
            return (descriptor, .network(served), nil)
        }
    }

    /// Stops accepting, closes idle connections, and gives the others at most `grace` to finish their request. Connections
    /// that were just opened may finish their first request. Then it closes the remaining ones and unlinks the socket files
    /// that are still ours. Returns when everything is closed.
    package func shutdown(grace: Duration = .seconds(30)) async {
        let end = ContinuousClock.now + grace
        for opening in openings {
            opening.file?.unlinkIfOurs()
            opening.acceptor.stop()
        }
        while !openings.allSatisfy(\.acceptor.hasStopped), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(1))
        }
        for opening in openings {
            for channel in opening.connectionLimits.drain() {
                channel.pipeline.fireUserInboundEventTriggered(ConnectionHandler.Drain())
            }
        }
        while openings.contains(where: { !$0.connectionLimits.served.isEmpty }), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(10))
        }
        let left = openings.flatMap(\.connectionLimits.served)
        if !left.isEmpty {
            logger.warning(
                "closing connections whose requests did not finish in time", metadata: ["connections": "\(left.count)"])
        }
        // All are closed concurrently: TLS waits up to a second for each peer's close.
        await withTaskGroup(of: Void.self) { group in
            for channel in left { group.addTask { try? await channel.close() } }
        }
        turns.stop()
    }
}

/// The reason why a program cannot listen.
package enum ListenerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process serves this socket; nothing was unlinked. Exit status 75.
    case alreadyServed(path: String)
    /// Any other failure: what failed, on what, and what to do.
    case unusable(String)

    package var description: String {
        switch self {
        case .alreadyServed(let path):
            "another process already serves \(path); stop it first, or configure another path"
        case .unusable(let what): what
        }
    }
}
