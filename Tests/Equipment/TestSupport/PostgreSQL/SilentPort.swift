import NIOCore
import NIOPosix

/// A TCP port of this host on which no server answers.
public final class SilentPort: Sendable {
    public enum Kind: CaseIterable, Sendable {
        /// The kernel makes the connection, and nothing is sent on it, as by a server that is stopped.
        case accepts
        /// No connection is made, as to a machine that has left the network: the port's queue is full, and Linux drops
        /// further requests.
        case drops
    }

    public let port: Int
    private let channels: [any Channel]

    /// - Parameters:
    ///   - address: one of this host, 127.0.0.0/8.
    ///   - port: 0 for a free one.
    public init(_ kind: Kind, address: String = "127.0.0.1", port: Int = 0) async throws {
        // A queue of length 0 takes one connection.
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
