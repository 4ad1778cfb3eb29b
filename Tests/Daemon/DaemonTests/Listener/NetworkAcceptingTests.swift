import Dispatch
import Logging
import NIOCore
import NIOPosix
import Refusals
import TestSupport
import Testing

@testable import HTTPListener

@Suite("Accepting from the network")
struct NetworkAcceptingTests {
    /// Counts accepted connections, and never responds.
    private struct CountingService: ConnectionService, RequestHandler {
        let accepted = Shared(0)
        let refused = Shared(0)
        let changes = Shared(0)

        func accept(_ connection: CInt, from peer: ArrivingPeer) -> AcceptedConnection {
            accepted.increment()
            return AcceptedConnection(source: peer.source) { _ in self }
        }

        func connectionsChanged(by difference: Int) { if difference > 0 { changes.increment() } }
        func connectionRefused() { refused.increment() }
        func admit(_ head: RequestHead) -> Admission { .refuse(HTTPAnswer(status: 404)) }
        func answer(to condition: HTTPCondition) -> HTTPAnswer { HTTPAnswer(status: 503) }
    }

    /// A listener whose only event loop is blocked until the test unblocks it.
    private struct BlockedListener {
        let service = CountingService()
        let listener: Listener
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        private let blocked = DispatchSemaphore(value: 0)
        private let clients = MultiThreadedEventLoopGroup(numberOfThreads: 1)

        init(_ maximum: ConnectionLimits.Maximum) async throws {
            listener = try await Listener.start(
                [
                    ListeningSocket(
                        name: "test", place: .network(try SocketAddress(ipAddress: "127.0.0.1", port: 0)),
                        service: service, connectionLimits: ConnectionLimits(maximum), answersOnEventLoop: true,
                        limits: RequestLimits(idle: .seconds(60)))
                ], group: group, logger: Logger(label: "test"))
            group.next().execute { [blocked] in blocked.wait() }
        }

        func unblock() { blocked.signal() }

        /// Connects from an address of 127.0.0.0/8.
        func connect(from address: String) async throws -> any Channel {
            let port = try #require(listener.networkAddresses.first?.port)
            return try await ClientBootstrap(group: clients)
                .bind(to: SocketAddress(ipAddress: address, port: 0))
                .connect(to: SocketAddress(ipAddress: "127.0.0.1", port: port)).get()
        }

        func end() async throws {
            unblock()
            await listener.shutdown(grace: .zero)
            try await clients.shutdownGracefully()
            try await group.shutdownGracefully()
        }
    }

    @Test(
        "closes connections of an address beyond its limit while they wait for an event loop")
    func oneAddress() async throws {
        let blocked = try await BlockedListener(.init(total: 64, perSource: 8, unidentified: 64))
        for _ in 0..<50 { _ = try await blocked.connect(from: "127.0.0.1") }
        try await wait(for: "refusals") { blocked.service.refused.current == 42 }
        #expect(blocked.service.accepted.current == 8)
        _ = try await blocked.connect(from: "127.0.0.2")
        try await wait(for: "an accepted connection") { blocked.service.accepted.current == 9 }
        #expect(blocked.service.changes.current == 0, "the event loop has set up none")
        blocked.unblock()
        try await wait(for: "connections that are set up") { blocked.service.changes.current == 9 }
        try await blocked.end()
    }

    @Test("limits the connections that have a descriptor but are not set up yet, for any number of addresses")
    func manyAddresses() async throws {
        let blocked = try await BlockedListener(.init(total: 2_048, perSource: 8, unidentified: 2_048))
        let all = SocketAcceptor.maximumArriving + 100
        var connections: [any Channel] = []
        for number in 0..<all {
            connections.append(try await blocked.connect(from: "127.1.\(number / 250).\(number % 250 + 1)"))
        }
        try await wait(for: "accepted connections") {
            blocked.service.accepted.current >= SocketAcceptor.maximumArriving
        }
        #expect(blocked.service.accepted.current == SocketAcceptor.maximumArriving)
        #expect(blocked.service.refused.current == 0, "the others wait in the kernel's queue")
        blocked.unblock()
        try await wait(for: "all connections") { blocked.service.changes.current == all }
        try await blocked.end()
    }
}
