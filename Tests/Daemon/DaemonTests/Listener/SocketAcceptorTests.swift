import CLinux
import Dispatch
import Foundation
import Glibc
import HostSystem
import NIOCore
import NIOPosix
import Refusals
import ServerProgram
import TestSupport
import Testing

@testable import Daemon
@testable import HTTPListener

@Suite("Accepting on a Unix socket")
struct SocketAcceptorTests {
    /// The number of connections that receive a response: one that is served, and those that are refused as too many.
    private static let answered = 1 + ConnectionLimits.overloadedMargin

    @Test("makes no channel for a peer that left before the accept or before its turn")
    func departedPeer() async throws {
        let connections = PlainConnections()
        var staying = 0
        try await connections.useWithBlockedEventLoop { socket in
            for _ in 0..<5 { close(try Self.connect(to: socket)) }
            let clients = try (0..<Self.answered).map { _ in try Self.connect(to: socket) }
            // Connections are accepted in order. Once this last connection has been closed because of the limit, all
            // earlier connections have been accepted.
            let last = try Self.connect(to: socket)
            try await wait(for: "the connection beyond the limit to be closed") { Self.isClosed(last) }
            // Up to five of these connections may be closed too, because each of the first five clients may have
            // counted towards the limit before it left.
            let open = clients.filter { !Self.isClosed($0) }
            staying = open.count - 10
            for client in open.prefix(10) { close(client) }
            return Array(Set(clients).subtracting(open.prefix(10))) + [last]
        }
        #expect(staying >= Self.answered - 15 && connections.accepted.current == staying)
    }

    @Test("closes connections beyond a uid's limit without making a channel")
    func connectionLimitPerUID() async throws {
        let connections = PlainConnections()
        try await connections.useWithBlockedEventLoop { socket in
            let clients = try (0..<Self.answered + 20).map { _ in try Self.connect(to: socket) }
            try await wait(for: "the connections beyond the limit to be closed") {
                clients.dropFirst(Self.answered).allSatisfy(Self.isClosed)
            }
            #expect(connections.refused.current == 20)
            #expect(clients.prefix(Self.answered).allSatisfy { !Self.isClosed($0) })
            return clients
        }
        #expect(connections.accepted.current == Self.answered)
    }

    @Test(
        "accepts at the end what the kernel has connected, and leaves an inherited socket's to the next program",
        arguments: [true, false])
    func connectionsAtTheEnd(isInherited: Bool) async throws {
        let directory = try FreshDirectory()
        let path = directory.path("s.sock")
        let connections = PlainConnections()
        let (listening, file) = try SocketFile.listen(path: path, mode: 0o600, group: nil)
        let ofServiceManager = dup(listening)
        let loops = try await ListenerTurns.start(on: MultiThreadedEventLoopGroup.singleton)
        let acceptor = try connections.acceptor(listening, path, isInherited: isInherited, loops, most: 100)
        let clients = try (0..<70).map { _ in try Self.connect(to: path) }
        // The thread stops as soon as it runs.
        acceptor.stop()
        acceptor.run()
        try await wait(for: "the accepted connections to be set up") { acceptor.hasStopped }
        #expect(connections.accepted.current == (isInherited ? 0 : clients.count))
        var arrival = paytokend_arrival()
        let next = unsafe paytokend_accept(ofServiceManager, &arrival)
        #expect(isInherited ? next >= 0 : next == -EAGAIN)
        for descriptor in clients + [next, ofServiceManager] where descriptor >= 0 { close(descriptor) }
        file.unlinkIfOurs()
        loops.stop()
    }

    @Test(
        "accepts a connection with its peer's uid, gid and process",
        .enabled(if: geteuid() == 0, "only root can connect as another user"))
    func peersCredentials() async throws {
        let directory = try FreshDirectory()
        unsafe _ = chmod(directory.path, 0o755)
        let (listening, file) = try SocketFile.listen(path: directory.path("s.sock"), mode: 0o666, group: nil)
        defer {
            file.unlinkIfOurs()
            close(listening)
        }
        var arrival = paytokend_arrival()
        #expect(unsafe paytokend_accept(listening, &arrival) == -EAGAIN)
        let program = try RunningProgram(
            Program.installed("setpriv"),
            [
                "--reuid=12345", "--regid=23456", "--clear-groups", Program.installed("curl"), "--silent",
                "--unix-socket", directory.path("s.sock"), "http://localhost/",
            ])
        defer { program.signal(SIGKILL) }
        var connection: CInt = -1
        try await wait(for: "the connection") {
            connection = unsafe paytokend_accept(listening, &arrival)
            return connection >= 0
        }
        let peer = arrival.peer
        #expect(peer.uid == 12345 && peer.gid == 23456 && peer.pid == program.processIdentifier)
        close(connection)
    }

    private static func connect(to path: String) throws -> CInt {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let error = unsafe paytokend_unix_connect(descriptor, path)
        guard error == 0 else { throw SystemError(call: "connect", errno: error) }
        return descriptor
    }

    /// Returns true if the other side has closed the connection.
    private static func isClosed(_ descriptor: CInt) -> Bool { paytokend_peer_has_left(descriptor) != 0 }
}

/// Connections of one uid. A limited number of them are served at a time.
final class PlainConnections: ConnectionService, RequestHandler {
    /// The number of channels created.
    let accepted = Shared(0)
    /// The number of excess connections, which were closed or answered with `overloaded`.
    let refused = Shared(0)
    private let turns = Shared(LoopTurns?.none)
    private let admission: @Sendable (LoopTurns) -> Admission

    /// - Parameter admission: decides about a request on the request's event loop.
    init(_ admission: @escaping @Sendable (LoopTurns) -> Admission = { _ in .refuse(HTTPAnswer(status: 404)) }) {
        self.admission = admission
    }

    func accept(_ connection: CInt, from peer: ArrivingPeer) -> AcceptedConnection {
        AcceptedConnection(source: peer.source) { _ in
            self.accepted.increment()
            return self
        }
    }

    func connectionsChanged(by difference: Int) {}
    func connectionRefused() { refused.increment() }

    func admit(_ head: RequestHead) -> Admission { turns.current.map(admission) ?? .refuse(HTTPAnswer(status: 500)) }
    func answer(to condition: HTTPCondition) -> HTTPAnswer { HTTPAnswer(refusal: Refusal(condition)) }

    /// - Parameter most: the number of connections that are served at a time.
    func acceptor(
        _ listening: CInt, _ path: String, isInherited: Bool, _ turns: ListenerTurns, most: Int,
        on group: MultiThreadedEventLoopGroup = .singleton
    ) throws -> SocketAcceptor {
        let acceptor = ConnectionAcceptor(
            service: self, connectionLimits: ConnectionLimits(.init(total: 100, perSource: most)),
            limits: RequestLimits(idle: .minutes(10), request: .minutes(10)), answersOnEventLoop: true, turns: turns)
        return try SocketAcceptor(
            listening, at: .unix(path: path), isInherited: isInherited, acceptor: acceptor, eventLoops: group)
    }

    /// Serves a socket in the directory while `body` runs.
    func use(
        on group: MultiThreadedEventLoopGroup, directory: FreshDirectory,
        _ body: (_ socket: String) async throws -> Void
    ) async throws {
        let path = directory.path("s.sock")
        let loops = try await ListenerTurns.start(on: group)
        let first = loops[group.next()]
        turns.change { $0 = first }
        let (listening, file) = try SocketFile.listen(path: path, mode: 0o600, group: nil)
        let local = try acceptor(listening, path, isInherited: false, loops, most: 1, on: group)
        local.start()
        do {
            try await body(path)
        } catch {
            local.stop()
            loops.stop()
            throw error
        }
        local.stop()
        try await wait(for: "the connections to be set up") { local.hasStopped }
        file.unlinkIfOurs()
        loops.stop()
    }

    /// Serves a socket whose event loop is blocked until `body` ends. Returns once each connection has been set up or
    /// closed.
    ///
    /// - Parameter body: returns the descriptors of its connections, which this method then closes.
    func useWithBlockedEventLoop(_ body: (_ socket: String) async throws -> [CInt]) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let isOver = DispatchSemaphore(value: 0)
        var clients: [CInt] = []
        try await use(on: group, directory: FreshDirectory()) { socket in
            group.next().execute { isOver.wait() }
            defer { isOver.signal() }
            clients = try await body(socket)
        }
        for client in clients { close(client) }
        try await group.shutdownGracefully()
    }
}
