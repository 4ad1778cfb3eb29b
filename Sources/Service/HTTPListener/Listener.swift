import Glibc
package import HostSystem
package import Logging
package import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A socket to listen on, and how its connections are served.
package struct ListeningSocket: Sendable {
    package enum Place: Sendable {
        /// Bound and listening already; its file is its owner's.
        case inherited(InheritedSocket)
        case path(String, mode: UInt32, group: Account?)
        case network(SocketAddress)
    }

    /// In messages.
    package let name: String
    package let place: Place
    package let service: any ConnectionService
    package let connectionLimits: ConnectionLimits
    /// Whether requests are answered on the thread of their connection. Not where an answer may take long.
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

/// Listening sockets, and the connections that came through them.
///
/// A program starts it last and shuts it down first. It reads HTTP/1.1 requests from peers that nobody has authenticated
/// yet, and hands each, whole and bounded, to the ``RequestHandler`` that its ``ConnectionService`` gave for the peer.
/// Guaranteed here: no connection takes more than its share (ConnectionLimits.swift), no request more memory or time than
/// its limits (BoundedInput.swift, ConnectionHandler.swift), two readers cannot disagree about where a request ends
/// (MessageFraming.swift), and at the end every request that was begun is answered or given up within the grace.
///
/// Start reading at RequestHandler.swift, what answers see; then ConnectionHandler.swift, one connection's life.
package final class Listener: Sendable {
    /// One listening socket while it is open.
    private struct Opening: Sendable {
        let acceptor: SocketAcceptor
        /// nil where the file is the service manager's, and for a socket of the network.
        let file: SocketFile?
        let connectionLimits: ConnectionLimits
    }

    private let openings: [Opening]
    private let group: any EventLoopGroup
    private let turns: ListenerTurns
    private let logger: Logger

    /// Where the sockets of the network listen, in the order in which they were opened: with the port that the system chose,
    /// where port 0 was asked for.
    package var networkAddresses: [NetworkAddress] {
        openings.compactMap { if case .network(let address) = $0.acceptor.address { address } else { nil } }
    }

    /// The paths of the Unix sockets, inherited ones too, in the order in which they were opened.
    package var socketPaths: [String] {
        openings.compactMap { if case .unix(let path) = $0.acceptor.address { path } else { nil } }
    }

    /// What a ``ServiceWatchdog`` asks: the first of the Unix sockets.
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

    /// Opens the sockets in this order, and serves until ``shutdown(grace:)``. When one cannot be opened the others are closed
    /// again, and their files removed.
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
        do throws(SystemError) {
            return Opening(
                acceptor: try SocketAcceptor.start(descriptor, at: address, acceptor: acceptor, eventLoops: group),
                file: file, connectionLimits: socket.connectionLimits)
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

    /// Stops accepting, closes idle connections, lets the others finish their request for at most `grace`, those that have just
    /// been opened their first, closes what is left, and unlinks the socket files that are still ours. Returns when nothing is open any more.
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
        // All at once: TLS waits for each peer's own end, for a second.
        await withTaskGroup(of: Void.self) { group in
            for channel in left { group.addTask { try? await channel.close() } }
        }
        turns.stop()
    }
}

/// Why a program cannot listen.
package enum ListenerError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Another process answers on this socket; nothing was unlinked. Exit status 75.
    case alreadyServed(path: String)
    /// Anything else: what failed, with what, and what to do.
    case unusable(String)

    package var description: String {
        switch self {
        case .alreadyServed(let path):
            "another process already serves \(path); stop it first, or configure another path"
        case .unusable(let what): what
        }
    }
}
