import NIOCore
import NIOPosix

/// A TCP port of this host on which nothing answers.
public final class SilentPort: Sendable {
    public enum Kind: CaseIterable, Sendable {
        /// The kernel accepts connections, and no program answers on them, as if the server's process were stopped.
        case accepts
        /// The port's queue is full, so Linux drops requests to connect, as if the machine had left the network.
        case drops
    }

    public let port: Int
    private let channels: [any Channel]

    /// Occupies a port.
    ///
    /// - Parameters:
    ///   - address: an address in 127.0.0.0/8.
    ///   - port: the port number; 0 for any free port.
    public init(_ kind: Kind, address: String = "127.0.0.1", port: Int = 0) async throws {
        // Linux queues one connection even if the backlog is 0. A client of this type takes that place, so that the
        // queue is full.
        let queue: Int32 = kind == .drops ? 0 : 128
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: queue)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: address, port: port).get()
        guard let place = listener.localAddress, let port = place.port else {
            throw HarnessFailure(description: "\(address) has no port")
        }
        var channels: [any Channel] = [listener]
        if kind == .drops {
            channels.append(
                try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(to: place).get())
        }
        self.port = port
        self.channels = channels
    }

    deinit {
        for channel in channels { channel.close(promise: nil) }
    }
}
