import ConfigurationFile
import Foundation
import HTTPListener
import Logging
import NIOCore
import NIOPosix
import ProductVersion
import Synchronization
import Telemetry

/// Puts the gateway together: the only file that names all concrete types.
///
/// A part that answers requests adds its routes in ``make(_:logger:)``: merchant endpoints to `routes`, its paths on the admin
/// socket to `adminRoutes`, and a value whose properties are metrics to `instruments`.
struct GatewayAssembly: Sendable {
    let configuration: GatewayConfiguration
    let instruments: GatewayInstruments
    let clients: CurrentClients
    let tls: TLSTermination?
    let live: LiveGatewayConfiguration
    let router: GatewayRouter
    let adminRouter: AdminRouter
    let logger: Logger

    static func make(
        _ configuration: GatewayConfiguration, logger: Logger, routes: [GatewayRoute] = [],
        adminRoutes: [AdminRoute] = [], instruments others: [any Sendable] = [], store: StoreReadiness? = nil
    ) throws(GatewayStartFailure) -> GatewayAssembly {
        let instruments = GatewayInstruments()
        let clients = CurrentClients(ClientDirectory(configuration.clients))
        var tls: TLSTermination?
        if let files = configuration.listener.tls {
            tls = TLSTermination(try .made(files, clients: clients.current))
        }
        let live = LiveGatewayConfiguration(configuration, instruments: instruments)
        let log = GatewayRequestLog(instruments: instruments, logger: logger)
        let started = Date()
        let monitoring = GatewayMonitoring(
            status: { [tls] in
                live.status(
                    startedAt: started, tls: tls?.current, connections: Int(instruments.connections.value() ?? 0))
            }, paytokend: configuration.paytokend, instruments: instruments, otherInstruments: others, store: store)
        return GatewayAssembly(
            configuration: configuration, instruments: instruments, clients: clients, tls: tls, live: live,
            router: GatewayRouter(
                routes: routes, clients: clients, rates: RequestRates(configuration.limits.requests), log: log,
                requestTimeout: configuration.limits.requestTimeout),
            adminRouter: AdminRouter(routes: monitoring.routes + adminRoutes, log: log), logger: logger)
    }

    /// Opens the admin socket, by which a second gateway is found, and then the listener.
    func listen() async throws(GatewayStartFailure) -> Listener {
        let limits = configuration.limits
        let most = DescriptorLimit.connections(wanted: limits.maxConnections, limit: DescriptorLimit.raise())
        if most < limits.maxConnections {
            logger.warning(
                "limits.max_connections does not fit under the descriptor limit; raise LimitNOFILE",
                metadata: ["wanted": "\(limits.maxConnections)", "served": "\(most)"])
        }
        let requests = RequestLimits(idle: TimeAmount(limits.idleTimeout))
        let admin = ListeningSocket(
            name: "admin",
            place: .path(configuration.admin.socket, mode: configuration.admin.mode, group: configuration.admin.group),
            service: AdminConnections(router: adminRouter, instruments: instruments),
            connectionLimits: ConnectionLimits(AdminConnections.maximum), answersOnEventLoop: false, limits: requests)
        let connectionLimits = ConnectionLimits(
            ConnectionLimits.Maximum(total: most, perSource: limits.maxConnectionsPerAddress))
        let merchants = ListeningSocket(
            name: configuration.listener.address.text, place: try place(),
            service: NetworkConnections(
                router: router, isLocal: configuration.listener.address.isUnix, tls: tls,
                connectionLimits: connectionLimits, limits: limits, instruments: instruments),
            connectionLimits: connectionLimits, answersOnEventLoop: false, limits: requests)
        do throws(ListenerError) {
            return try await Listener.start(
                [admin, merchants], group: MultiThreadedEventLoopGroup.singleton, logger: logger)
        } catch {
            throw GatewayStartFailure(listener: error)
        }
    }

    private func place() throws(GatewayStartFailure) -> ListeningSocket.Place {
        switch configuration.listener.address {
        case .unix(let path, let mode, let group): return .path(path, mode: mode, group: group)
        case .network(let ip, let port):
            guard let address = try? SocketAddress(ipAddress: ip, port: port) else {
                throw GatewayStartFailure(.defect, "paytoken-gateway: the configured address is not understood.")
            }
            return .network(address)
        }
    }
}

extension GatewayListenerSettings.Address {
    fileprivate var isUnix: Bool { if case .unix = self { true } else { false } }

    /// As the configuration has it.
    var text: String {
        switch self {
        case .unix(let path, _, _): "unix:\(path)"
        case .network(let ip, let port): NetworkAddress(ip: ip, port: port)?.text ?? "\(ip):\(port)"
        }
    }
}

extension TLSTermination.Settings {
    static func made(_ files: TLSFiles, clients: ClientDirectory) throws(GatewayStartFailure) -> Self {
        do {
            return try Self(files, clients: clients)
        } catch {
            throw GatewayStartFailure(.configuration, "listener.tls cannot be used: \(error)")
        }
    }
}
