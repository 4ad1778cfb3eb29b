import Foundation
import NIOCore
import NIOPosix
import TestSupport

/// A proxy that tunnels to a simulated Apple for every host, or returns another response.
final class ConnectProxy: Sendable {
    enum Behaviour: Sendable {
        case tunnels(toPort: Int)
        /// Responds with exactly these bytes.
        case says(String)
    }

    private let channel: any Channel
    private let asked = Shared<[String]>([])
    let port: Int

    /// The heads of the requests received.
    var requests: [String] { asked.current }

    init(_ behaviour: Behaviour) async throws {
        let asked = asked
        channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(TunnelEntrance(behaviour, asked))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        port = channel.localAddress?.port ?? 0
    }

    deinit { channel.close(promise: nil) }
}

/// Answers the CONNECT, and forwards the bytes that follow.
private final class TunnelEntrance: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let behaviour: ConnectProxy.Behaviour
    private let asked: Shared<[String]>
    private var head: [UInt8] = []
    private var other: (any Channel)?

    init(_ behaviour: ConnectProxy.Behaviour, _ asked: Shared<[String]>) {
        self.behaviour = behaviour
        self.asked = asked
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = unwrapInboundIn(data)
        if let other { return other.writeAndFlush(bytes, promise: nil) }
        head += bytes.readableBytesView
        guard head.suffix(4) == Array("\r\n\r\n".utf8)[...] else { return }
        let text = String(decoding: head, as: UTF8.self)
        asked.change { $0.append(text) }
        switch behaviour {
        case .says(let text): context.channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
        case .tunnels(let port):
            let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
            let channel = context.channel
            ClientBootstrap(group: context.eventLoop)
                .channelInitializer { far in
                    far.eventLoop.makeCompletedFuture {
                        try far.pipeline.syncOperations.addHandler(TunnelExit(channel))
                    }
                }
                .connect(host: "127.0.0.1", port: port).whenSuccess { far in
                    let (entrance, context) = bound.value
                    entrance.other = far
                    context.channel.writeAndFlush(
                        ByteBuffer(string: "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n"), promise: nil)
                }
        }
    }

    func channelInactive(context: ChannelHandlerContext) { other?.close(promise: nil) }
}

private final class TunnelExit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let near: any Channel

    init(_ near: any Channel) { self.near = near }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        near.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { near.close(promise: nil) }
}
