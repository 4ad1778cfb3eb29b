import Foundation
import NIOCore
import NIOPosix
import Synchronization
import TestSupport

/// A connection that sends whatever bytes a test wants, when it wants, as no HTTP client would.
final class RawConnection: Sendable {
    private final class Collector: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let state = Mutex((received: [UInt8](), closed: false))

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let buffer = unwrapInboundIn(data)
            state.withLock { $0.received += buffer.readableBytesView }
        }

        func channelInactive(context: ChannelHandlerContext) { state.withLock { $0.closed = true } }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }

    private let channel: any Channel
    private let collector: Collector

    /// - Parameter waits: whether a full backlog is waited for, as a blocking connect does, or thrown as EAGAIN.
    init(_ socket: String, waits: Bool = true) async throws {
        let collector = Collector()
        self.collector = collector
        let bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(collector) }
            }
        var connected: (any Channel)?
        while connected == nil {
            do {
                connected = try await bootstrap.connect(unixDomainSocketPath: socket).get()
            } catch let error as IOError where waits && error.errnoCode == EAGAIN {
                // What is left of the backlog is taken.
                try await Task.sleep(for: .milliseconds(5))
            }
        }
        guard let connected else { throw CancellationError() }
        channel = connected
    }

    var received: [UInt8] { collector.state.withLock { $0.received } }
    var text: String { String(decoding: received, as: UTF8.self) }
    var isClosed: Bool { collector.state.withLock { $0.closed } }

    func send(_ bytes: [UInt8]) async throws { try await channel.writeAndFlush(ByteBuffer(bytes: bytes)).get() }
    func send(_ text: String) async throws { try await send(Array(text.utf8)) }
    /// Waits until the daemon has taken from its socket all that was sent.
    func waitUntilRead() async throws {
        try await wait(for: "the daemon to read") {
            try await channel.eventLoop.submit { [channel] in
                try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
                    bytesNotRead(fromPeerOf: $0)
                }
            }.get() == 0
        }
    }
    func close() async { try? await channel.close().get() }

    /// The head of a POST with a body of `length` bytes to come.
    static func head(_ path: String, length: Int, more: [String] = []) -> String {
        let lines = ["POST \(path) HTTP/1.1", "Host: x", "Content-Type: application/json", "Content-Length: \(length)"]
        return (lines + more).joined(separator: "\r\n") + "\r\n\r\n"
    }
}
