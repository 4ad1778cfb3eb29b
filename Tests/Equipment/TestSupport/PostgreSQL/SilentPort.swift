import Foundation
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
    private let address: String
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
        self.address = address
        self.channels = channels
    }

    /// The number of connections that wait for the port, and of requests to connect to it that wait for an answer.
    ///
    /// No program accepts a connection, and closing it at the other end does not take it from the queue. So the number
    /// grows with each attempt to connect to a port that ``Kind/accepts``, and during each attempt to one that
    /// ``Kind/drops`` requests.
    public var waiting: Int {
        get throws {
            // proc(5), /proc/net/tcp: sl, local address, remote address, state, tx_queue:rx_queue; hexadecimal numbers,
            // and an address's bytes in the order of a little-endian machine. A listening socket (0A) has the length of
            // its queue as rx_queue; 02 is SYN_SENT.
            let bytes = address.split(separator: ".").compactMap { UInt8($0) }.reversed()
            let place = bytes.map { String(format: "%02X", $0) }.joined() + String(format: ":%04X", port)
            let file = try FileHandle(forReadingFrom: URL(filePath: "/proc/net/tcp"))
            let text = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
            return text.split(separator: "\n").dropFirst().reduce(0) { count, line in
                let words = line.split(separator: " ")
                let queue = words[4].split(separator: ":").last.flatMap { Int($0, radix: 16) } ?? 0
                if words[3] == "0A", words[1] == place { return count + queue }
                return words[3] == "02" && words[2] == place ? count + 1 : count
            }
        }
    }

    deinit {
        for channel in channels { channel.close(promise: nil) }
    }
}
