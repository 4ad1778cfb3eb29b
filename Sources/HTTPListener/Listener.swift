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
        enum Door: Sendable {
            case network(any Channel)
            case local(LocalAcceptor)
        }

        let door: Door
        let file: SocketFile?
        let connectionLimits: ConnectionLimits

        /// Returns true when each accepted connection of a Unix socket is set up, and no other will be.
        var acceptsNothing: Bool { if case .local(let acceptor) = door { acceptor.hasStopped } else { true } }

        func close() async {
            switch door {
            case .network(let channel): try? await channel.close()
            case .local(let acceptor): acceptor.stop()
            }
        }
    }

    private let openings: [Opening]
    private let group: any EventLoopGroup
    private let turns: ListenerTurns
    private let logger: Logger

    /// Accepts connections of the network, so that event loops which are busy with requests do not delay that. For all listeners of
    /// the process, and for good.
    private static let accepting = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// Where the sockets of the network listen, in the order in which they were opened: with the port that the system chose,
    /// where port 0 was asked for.
    package var networkAddresses: [SocketAddress] {
        openings.compactMap { if case .network(let channel) = $0.door { channel.localAddress } else { nil } }
    }

    /// The paths of the Unix sockets, inherited ones too, in the order in which they were opened.
    package var socketPaths: [String] {
        openings.compactMap { if case .local(let acceptor) = $0.door { acceptor.path } else { nil } }
    }

    /// What a ``ServiceWatchdog`` asks: the first of the Unix sockets.
    package var watchedSocket: WatchedSocket? {
        openings.lazy.compactMap { opening in
            guard case .local(let acceptor) = opening.door else { return nil }
            return WatchedSocket(path: acceptor.path, isInherited: opening.file == nil)
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
            for socket in sockets { openings.append(try await open(socket, group: group, turns: turns)) }
        } catch {
            for opening in openings {
                opening.file?.unlinkIfOurs()
                await opening.close()
            }
            turns.stop()
            throw error
        }
        return Listener(openings: openings, group: group, turns: turns, logger: logger)
    }

    private static func open(
        _ socket: ListeningSocket, group: any EventLoopGroup, turns: ListenerTurns
    ) async throws(ListenerError) -> Opening {
        let acceptor = ConnectionAcceptor(
            service: socket.service, connectionLimits: socket.connectionLimits, limits: socket.limits,
            answersOnEventLoop: socket.answersOnEventLoop, turns: turns)
        let bootstrap = acceptor.bootstrap(accepting: accepting, group: group)
        var file: SocketFile?
        do {
            let door: Opening.Door
            switch socket.place {
            case .inherited(let inherited):
                switch inherited.address {
                case .unix(let path):
                    door = .local(
                        try LocalAcceptor.start(inherited.descriptor, path: path, acceptor: acceptor, eventLoops: group)
                    )
                case .network:
                    door = .network(
                        try await withoutDelay(bootstrap).withBoundSocket(inherited.descriptor).get())
                    // NIO has called listen once more, with 128; past that, callers that do not block get EAGAIN.
                    _ = listen(inherited.descriptor, SocketFile.backlog)
                }
            case .path(let path, let mode, let owner):
                let (descriptor, made) = try SocketFile.listen(path: path, mode: mode, group: owner)
                file = made
                door = .local(
                    try LocalAcceptor.start(descriptor, path: path, acceptor: acceptor, eventLoops: group))
            case .network(let address):
                door = .network(
                    try await withoutDelay(bootstrap)
                        .serverChannelOption(.backlog, value: SocketFile.backlog)
                        .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                        .bind(to: address).get())
            }
            return Opening(door: door, file: file, connectionLimits: socket.connectionLimits)
        } catch let error as ListenerError {
            throw error
        } catch let error as IOError where error.errnoCode == EADDRINUSE {
            throw .alreadyServed(path: socket.name)
        } catch {
            file?.unlinkIfOurs()
            throw .unusable("cannot accept connections on the \(socket.name) socket: \(error)")
        }
    }

    private static func withoutDelay(_ bootstrap: ServerBootstrap) -> ServerBootstrap {
        bootstrap.childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
    }

    /// Stops accepting, closes idle connections, lets the others finish their request for at most `grace`, those that have just
    /// been opened their first, closes what is left, and unlinks the socket files that are still ours. Returns when nothing is open any more.
    package func shutdown(grace: Duration = .seconds(30)) async {
        let end = ContinuousClock.now + grace
        for opening in openings {
            opening.file?.unlinkIfOurs()
            switch opening.door {
            // Not waited for: each event loop does what it is given in order.
            case .network(let channel): channel.setOption(.autoRead, value: false).whenComplete { _ in }
            case .local(let acceptor): acceptor.stop()
            }
        }
        // A connection of the network that was accepted is set up on an event loop of its own, and handed back to the accepting
        // one, which closes it without an answer if its socket is closed by then.
        for _ in 0..<3 {
            let passed = PassedEventLoops([Self.accepting, group])
            while !passed.isComplete, ContinuousClock.now < end { try? await Task.sleep(for: .milliseconds(1)) }
        }
        while !openings.allSatisfy(\.acceptsNothing), ContinuousClock.now < end {
            try? await Task.sleep(for: .milliseconds(1))
        }
        for opening in openings {
            if case .network(let channel) = opening.door { try? await channel.close() }
            for channel in opening.connectionLimits.drain() {
                channel.pipeline.fireUserInboundEventTriggered(ConnectionHandler.Drain())
            }
        }
        let setUp = PassedEventLoops([group])
        while !setUp.isComplete || openings.contains(where: { !$0.connectionLimits.served.isEmpty }),
            ContinuousClock.now < end
        {
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

/// Whether each event loop has done what it was given before: a connection that was accepted is set up on its own event loop a
/// little later, and is not among those that are served until then.
private final class PassedEventLoops: Sendable {
    private let missing: Atomic<Int>

    init(_ groups: [any EventLoopGroup]) {
        let eventLoops = groups.flatMap { Array($0.makeIterator()) }
        missing = Atomic(eventLoops.count)
        for eventLoop in eventLoops {
            eventLoop.execute { self.missing.subtract(1, ordering: .relaxed) }
        }
    }

    var isComplete: Bool { missing.load(ordering: .relaxed) == 0 }
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
