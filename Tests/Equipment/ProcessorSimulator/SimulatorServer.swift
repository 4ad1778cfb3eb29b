package import HTTPListener
import Locks
import NIOCore
import NIOHTTP1
import NIOPosix

/// The simulator's server.
///
/// It does not use this repository's listener, which guarantees complete answers and orderly closing. The simulator
/// must be able to break both.
package final class SimulatorServer: Sendable {
    private struct Connections {
        var open: [ObjectIdentifier: any Channel] = [:]
        var isDraining = false
    }

    /// Counts accepted connections. A connection beyond the maximum is closed at once.
    private final class Acceptance: Sendable {
        let connections = Mutex(Connections())
        let maximum: Int

        init(maximum: Int) { self.maximum = maximum }

        func admit(_ channel: any Channel) -> Bool {
            let identifier = ObjectIdentifier(channel)
            let isAdmitted = connections.withLock { connections in
                guard !connections.isDraining, connections.open.count < maximum else { return false }
                connections.open[identifier] = channel
                return true
            }
            channel.closeFuture.whenComplete { _ in
                self.connections.withLock { _ = $0.open.removeValue(forKey: identifier) }
            }
            return isAdmitted
        }
    }

    private let listening: any Channel
    private let file: SocketFile?
    private let acceptance: Acceptance
    private let log: SubmissionLog
    private let late: TimeAmount

    private init(
        listening: any Channel, file: SocketFile?, acceptance: Acceptance, log: SubmissionLog, late: TimeAmount
    ) {
        (self.listening, self.file, self.acceptance, self.log, self.late) = (listening, file, acceptance, log, late)
    }

    /// Starts to listen at `address`.
    ///
    /// - Parameters:
    ///   - late: the time between a submission and a late answer to it.
    ///   - maximumConnections: the maximum number of simultaneous connections. The limit is lower if the process may
    ///     not open enough descriptors.
    package static func start(
        at address: SimulatorAddress, log: SubmissionLog, late: Duration, maximumConnections: Int = 1024
    ) async throws(ListenerError) -> SimulatorServer {
        let late = TimeAmount(late)
        let routes = RequestRoutes(log: log)
        let acceptance = Acceptance(
            maximum: DescriptorLimit.connections(wanted: maximumConnections, limit: DescriptorLimit.raise()))
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: SocketFile.backlog)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard acceptance.admit(channel) else { return channel.close(promise: nil) }
                    let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)
                    try channel.pipeline.syncOperations.addHandlers([
                        ByteToMessageHandler(decoder), SimulatorConnection(routes: routes, late: late),
                    ])
                }
            }
        var file: SocketFile?
        do {
            let listening: any Channel
            switch address {
            case .unix(let path):
                let (descriptor, made) = try SocketFile.listen(path: path, mode: 0o600, group: nil)
                file = made
                listening = try await bootstrap.withBoundSocket(descriptor).get()
            case .loopback(let address):
                listening =
                    try await bootstrap
                    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .bind(to: address).get()
            }
            return SimulatorServer(listening: listening, file: file, acceptance: acceptance, log: log, late: late)
        } catch let error as ListenerError {
            throw error
        } catch {
            file?.unlinkIfOurs()
            throw .unusable("cannot listen: \(error)")
        }
    }

    /// The listening address in the form that ``SimulatorAddress`` parses. It has the chosen port if port 0 was
    /// requested.
    package var address: String {
        if let file { return "unix:\(file.path)" }
        guard let local = listening.localAddress, let ip = local.ipAddress, let port = local.port else { return "" }
        return ip.contains(":") ? "[\(ip)]:\(port)" : "\(ip):\(port)"
    }

    /// Stops accepting connections, and returns when all current requests, including late ones, are answered.
    /// Connections that never get an answer are closed.
    package func shutdown() async {
        file?.unlinkIfOurs()
        try? await listening.close()
        let open = acceptance.connections.withLock { connections in
            connections.isDraining = true
            return Array(connections.open.values)
        }
        for channel in open { channel.pipeline.fireUserInboundEventTriggered(SimulatorConnection.Drain()) }
        let grace = late + .seconds(5)
        await withTaskGroup(of: Void.self) { group in
            for channel in open {
                group.addTask {
                    // A peer that does not read its answer must not delay the shutdown.
                    let end = channel.eventLoop.scheduleTask(in: grace) { channel.close(promise: nil) }
                    try? await channel.closeFuture.get()
                    end.cancel()
                }
            }
        }
        await log.flush()
    }
}
