import Locks
import NIOCore
import NIOPosix
import TestSupport

@testable import DaemonAPI

/// A server that sends the next of its scripts after each read from a connection. After the last one it ignores further
/// input.
final class ScriptedServer: Sendable {
    private let directory: FreshDirectory
    private let channel: any Channel
    private let log: ReceivedLog
    let path: String

    convenience init(_ script: String, closes: Bool = true) async throws {
        try await self.init([script], closes: closes)
    }

    /// Starts a server with the answers that it sends, one for each read.
    ///
    /// - Parameter closes: true to close the connection after the last script.
    init(_ scripts: [String], closes: Bool = true) async throws {
        directory = try FreshDirectory()
        path = directory.path("s.sock")
        let log = ReceivedLog()
        self.log = log
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 64)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        ScriptHandler(scripts: scripts, closes: closes, log: log))
                }
            }
            .bind(unixDomainSocketPath: path).get()
    }

    func client(maximumAnswerBytes: Int = 64 << 20, deadline: Duration = .seconds(20)) -> UnixSocketClient {
        UnixSocketClient(path: path, maximumAnswerBytes: maximumAnswerBytes, deadline: deadline)
    }

    /// Returns the received bytes once they end in `suffix`.
    func received(_ suffix: String) async throws -> String {
        try await wait(for: "the request's end") { log.text.hasSuffix(suffix) }
        return log.text
    }

    var text: String { log.text }

    func stop() async throws { try await channel.close() }
}

private final class ReceivedLog: Sendable {
    private let bytes = Mutex<[UInt8]>([])

    var text: String { String(decoding: bytes.withLock { $0 }, as: UTF8.self) }

    func append(_ more: [UInt8]) { bytes.withLock { $0 += more } }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var scripts: ArraySlice<String>
    private let closes: Bool
    private let log: ReceivedLog

    init(scripts: [String], closes: Bool, log: ReceivedLog) {
        self.scripts = scripts[...]
        self.closes = closes
        self.log = log
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        log.append(Array(unwrapInboundIn(data).readableBytesView))
        guard let script = scripts.popFirst() else { return }
        let buffer = context.channel.allocator.buffer(string: script)
        let done = context.writeAndFlush(wrapOutboundOut(buffer))
        if closes, scripts.isEmpty {
            let channel = context.channel
            done.whenComplete { _ in channel.close(promise: nil) }
        }
    }
}
