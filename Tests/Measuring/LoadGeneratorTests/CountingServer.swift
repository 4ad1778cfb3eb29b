import Foundation
import Locks
import NIOCore
import NIOPosix
import TestSupport

/// A server that counts requests by their size, and answers each with the status that the test chooses for its number.
final class CountingServer: Sendable {
    private let directory: FreshDirectory
    /// One thread serves all connections, so that a stall delays every request.
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    private let channel: any Channel
    let path: String

    /// Starts a server.
    ///
    /// - Parameters:
    ///   - size: the size of each request in bytes.
    ///   - reads: the number of bytes read at a time.
    ///   - stall: the time for which the server does nothing when request `number` (counted from 1) arrives.
    ///   - status: returns the status for a request's number; nil closes the connection.
    init(
        size: Int = 32, reads: Int = 65_536, stall: Duration = .zero, at number: Int = 0,
        status: @escaping @Sendable (Int) -> String?
    ) async throws {
        directory = try FreshDirectory()
        path = directory.path("s.sock")
        let counter = Counter(stall: stall, at: number)
        channel = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 64)
            .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: reads))
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        Answering(size: size, counter: counter, status: status))
                }
            }
            .bind(unixDomainSocketPath: path).get()
    }

    func stop() async throws {
        try await channel.close()
        try await group.shutdownGracefully()
    }
}

private final class Counter: Sendable {
    private let count = Mutex(0)
    private let stall: Duration
    private let number: Int

    init(stall: Duration, at number: Int) { (self.stall, self.number) = (stall, number) }

    func next() -> Int {
        let count = count.withLock {
            $0 += 1
            return $0
        }
        if count == number { Thread.sleep(forTimeInterval: stall / .seconds(1)) }
        return count
    }
}

private final class Answering: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let size: Int
    private let counter: Counter
    private let status: @Sendable (Int) -> String?
    private var received = 0

    init(size: Int, counter: Counter, status: @escaping @Sendable (Int) -> String?) {
        (self.size, self.counter, self.status) = (size, counter, status)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += unwrapInboundIn(data).readableBytes
        while received >= size {
            received -= size
            guard let status = status(counter.next()) else {
                context.close(promise: nil)
                return
            }
            let answer = "HTTP/1.1 \(status)\r\nContent-Length: 2\r\n\r\n{}"
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
        }
    }
}
