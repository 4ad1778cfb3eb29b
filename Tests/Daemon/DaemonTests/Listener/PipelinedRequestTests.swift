import AccessControl
import Foundation
import Glibc
import Locks
import NIOCore
import NIOPosix
import Refusals
import ServerProgram
import TestSupport
import Testing

@testable import Daemon
@testable import DaemonConfiguration
@testable import HTTPListener

@Suite("Many requests on few connections")
struct PipelinedRequestTests {
    @Test("serves another source's request between the requests that one source has pipelined")
    func otherSource() async throws {
        let eventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let turns = try await LoopTurns.start(on: eventLoop.next())
        let order = Shared([String]())
        try await eventLoop.next().submit {
            #expect(turns.takeNow())
            for number in 0..<100 {
                turns.take(of: TurnShare(of: .user(1))) {
                    order.change { $0.append("many \(number)") }
                    turns.end()
                }
            }
            turns.take(of: TurnShare(of: .user(2))) {
                order.change { $0.append("few") }
                turns.end()
            }
            turns.end()
        }.get()
        try await wait(for: "all of them") { order.current.count == 101 }
        #expect(order.current.firstIndex(of: "few") == 1)
        turns.stop()
        try await eventLoop.shutdownGracefully()
    }

    @Test("polls the sockets of an event loop whose work always adds more work")
    func pollsBusyLoop() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let turns = try await LoopTurns.start(on: group.next())
        let isRead = Atomic(false)
        var ends: [CInt] = [-1, -1]
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        #expect(unsafe socketpair(AF_UNIX, type, 0, &ends) == 0)
        let channel = try await ClientBootstrap(group: group.next())
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        ReadObserver { isRead.store(true, ordering: .relaxed) })
                }
            }
            .withConnectedSocket(ends[0]).get()
        // Each piece of work adds another one, until the event loop has read the socket. If `turns` did not pause the
        // work for polls of the sockets, the socket would never be read, and the work would never end.
        @Sendable func work() {
            turns.take(of: TurnShare(of: .user(1))) {
                usleep(50)
                if !isRead.load(ordering: .relaxed) { work() }
                turns.end()
            }
        }
        try await group.next().submit { work() }.get()
        var byte: UInt8 = 1
        #expect(unsafe send(ends[1], &byte, 1, 0) == 1)
        try await wait(for: "the socket to be read") { isRead.load(ordering: .relaxed) }
        turns.stop()
        close(ends[1])
        try? await channel.close()
        try await group.shutdownGracefully()
    }

    @Test("serves another source between the chunks of one body")
    func turnsWithinBody() async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let order = Shared([String]())
        let connections = PlainConnections { turns in
            turns.take(of: TurnShare(of: .user(2))) {
                order.change { $0.append("other") }
                turns.end()
            }
            return .accept(bodyLimit: 65_536) { _ in
                order.change { $0.append("answered") }
                return HTTPAnswer(status: 200)
            }
        }
        try await connections.use(on: group, directory: FreshDirectory()) { socket in
            let client = try await RawConnection(socket, staysOpen: true)
            // The request has less than 16 KiB, so the listener receives it in one read.
            try await client.send(
                "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + String(repeating: "1\r\n \r\n", count: BoundedInput.maximumChunks) + "0\r\n\r\n")
            #expect(try await client.answer().status == 200)
        }
        #expect(order.current == ["other", "answered"])
        try await group.shutdownGracefully()
    }

    @Test("limits a uid's requests under way to its number of connections, however many it sends")
    func underWay() async throws {
        try await ListenerFixture(change: { $0.maxConnectionsPerUID = 2 }).use { fixture in
            let clients = [try await fixture.connect(), try await fixture.connect()]
            let requests = String(repeating: "GET /held HTTP/1.1\r\nHost: a\r\n\r\n", count: 10)
            for client in clients { try await client.send(requests) }
            try await wait(for: "a request of each connection") { fixture.handler.latch.waiting == 2 }
            #expect(try await fixture.connect().answer().status == 503)
            #expect(fixture.handler.latch.arrivals == 2)
            fixture.handler.latch.open()
            for client in clients { for _ in 0..<10 { #expect(try await client.answer().status == 200) } }
        }
    }

    @Test("accepts a body with the largest permitted number of chunks, and refuses one with more")
    func chunks() async throws {
        for (count, status) in [(BoundedInput.maximumChunks, 200), (BoundedInput.maximumChunks + 1, 413)] {
            try await ListenerFixture().use { fixture in
                let client = try await fixture.connect()
                let head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                client.sendLossy(head + String(repeating: "1\r\n \r\n", count: count) + "0\r\n\r\n")
                let answer = try await client.answer()
                #expect(answer.status == status)
                if status == 200 { #expect(answer.body == "POST /x \(count)") }
            }
        }
    }

    @Test("reports a closed connection to the work for its peer, but not a peer that only finished sending")
    func closedConnectionReported() async throws {
        for leaves in [true, false] {
            let origin = Shared(RequestOrigin?.none)
            let latch = Latch(isOpen: false)
            let directory = try FreshDirectory()
            let listener = try await Listener.start(
                ListenerFixture.settings(in: directory).sockets(
                    handler: OriginRecorder(origin: origin, latch: latch), instruments: Instruments(),
                    logger: ListenerFixture.quiet),
                group: MultiThreadedEventLoopGroup.singleton, logger: ListenerFixture.quiet)
            let client = try await RawConnection(directory.path("p.sock"), staysOpen: true)
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            try await wait(for: "the request to be under way") { latch.waiting == 1 }
            #expect(origin.current?.hasLeft == false)
            if leaves {
                await client.close()
                try await wait(for: "the peer's departure") { origin.current?.hasLeft == true }
                latch.open()
            } else {
                try await client.finishSending()
                latch.open()
                #expect(try await client.answer().status == 200)
            }
            await listener.shutdown(grace: .seconds(5))
        }
    }
}

/// Records the origin of each request, and answers the request once the latch is open.
private struct OriginRecorder: PeerRequestHandler {
    let origin: Shared<RequestOrigin?>
    let latch: Latch

    func admit(_ head: RequestHead, from peer: DaemonPeer) -> Admission {
        origin.change { $0 = head.origin }
        return .accept(bodyLimit: 0) { _ in
            await latch.pass()
            return HTTPAnswer(status: origin.current?.hasLeft == true ? 500 : 200)
        }
    }

    func answer(to condition: HTTPCondition, from peer: DaemonPeer) -> HTTPAnswer {
        HTTPAnswer(refusal: Refusal(condition))
    }
}

private final class ReadObserver: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let note: @Sendable () -> Void

    init(_ note: @escaping @Sendable () -> Void) { self.note = note }

    func channelReadComplete(context: ChannelHandlerContext) { note() }
}
