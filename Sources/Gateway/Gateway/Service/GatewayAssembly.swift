import ConfigurationFile
import Foundation
import HTTPListener
import HostSystem
import Logging
import NIOCore
import ServerProgram
import Telemetry

/// Assembles the gateway. This is the only file that names all concrete types.
///
/// A part that handles requests adds its routes in ``make(_:logger:)``: merchant endpoints to `routes`, its paths on
/// the admin socket to `adminRoutes`, and a value whose properties are metrics to `instruments`.
struct GatewayAssembly: Sendable {
    let configuration: GatewayConfiguration
    let instruments: GatewayInstruments
    let clients: CurrentClients
    let tls: TLSTermination?
    let live: Current<GatewayConfiguration>
    let router: MerchantRouter
    let adminRouter: AdminRouter
    let monitoring: GatewayMonitoring
    let logger: Logger

    static func make(
        _ configuration: GatewayConfiguration, logger: Logger, routes: [GatewayRoute] = [],
        adminRoutes: [AdminRoute] = [], instruments others: [any Sendable] = [], store: StoreReadiness? = nil
    ) throws(StartFailure) -> GatewayAssembly {
        let instruments = GatewayInstruments()
        let clients = CurrentClients(ClientDirectory(configuration.clients))
        var tls: TLSTermination?
        if let files = configuration.listener.tls {
            tls = TLSTermination(try .made(files, clients: clients.current))
        }
        let live = Current(configuration)
        instruments.show(configuration)
        let log = RequestLog(
            requests: instruments.requests, seconds: instruments.requestSeconds, logger: logger)
        let started = Date()
        let monitoring = GatewayMonitoring(
            status: { [tls] in
                GatewayStatus(
                    live.current, startedAt: started, tls: tls?.current,
                    connections: Int(instruments.connections.value() ?? 0))
            }, paytokend: PaytokendReadiness(configuration.paytokend), paytokendSocket: configuration.paytokend.socket,
            instruments: instruments, otherInstruments: others, store: store)
        return GatewayAssembly(
            configuration: configuration, instruments: instruments, clients: clients, tls: tls, live: live,
            router: MerchantRouter(
                routes: routes,
                rules: MerchantRules(
                    clients: clients, rates: RequestRates(configuration.limits.requests),
                    requestTimeout: configuration.limits.requestTimeout), log: log),
            adminRouter: AdminRouter(
                routes: monitoring.routes + adminRoutes, rules: AdminRules(access: { live.current.admin.access }),
                log: log),
            monitoring: monitoring, logger: logger)
    }

    /// Returns the text for `systemctl status`: the number of clients if the gateway is ready, and otherwise the
    /// reasons that `GET /readyz` also returns.
    func status(of service: ServiceNotification) -> ServiceStatus {
        ServiceStatus(service: service) { [monitoring, live] in
            let reasons = await monitoring.notReady()
            guard reasons.isEmpty else {
                return .notReady(reasons.map { ($0.component, $0.message) })
            }
            let clients = live.current.clients.count
            return .init(sentences: ["Serving \(clients) \(clients == 1 ? "client" : "clients")."])
        }
    }

    /// Opens the admin socket, and then the listener's socket. The admin socket comes first, because opening it detects
    /// a gateway that is already running.
    ///
    /// - Parameter inherited: the socket for merchants' backends if the service manager has already opened it. Its
    ///   address must be the configured one, because the configuration check decided by that address whether TLS is
    ///   required.
    func sockets(inherited: InheritedSocket? = nil) throws(ListenerError) -> [ListeningSocket] {
        let limits = configuration.limits
        let most = DescriptorLimit.connections(
            "limits.max_connections", limits.maxConnections, logger, fitting: configuration.connections)
        let requests = RequestLimits(idle: TimeAmount(limits.idleTimeout))
        let admin = ListeningSocket(
            name: "admin",
            place: .path(configuration.admin.socket, mode: configuration.admin.mode, group: configuration.admin.group),
            service: AdminConnections(router: adminRouter, instruments: instruments),
            connectionLimits: ConnectionLimits(.administration), answersOnEventLoop: false, limits: requests)
        let connectionLimits = ConnectionLimits(
            ConnectionLimits.Maximum(
                total: most, perSource: limits.maxConnectionsPerAddress,
                unidentified: LimitSettings.unidentifiedConnections(of: most)))
        let merchants = ListeningSocket(
            name: configuration.listener.address.text, place: try place(inherited),
            service: NetworkConnections(
                router: router, tls: tls,
                connectionLimits: connectionLimits, limits: limits, handshakeRates: HandshakeRates(limits.handshakes),
                instruments: instruments, handshakes: HandshakeLog(instruments: instruments, logger: logger)),
            connectionLimits: connectionLimits, answersOnEventLoop: true, limits: requests)
        return [admin, merchants]
    }

    private func place(_ inherited: InheritedSocket?) throws(ListenerError) -> ListeningSocket.Place {
        let address = configuration.listener.address
        if let inherited {
            guard address.isOf(inherited.address) else {
                throw .unusable(
                    "paytoken-gateway: the inherited socket listens at \(inherited.address.text), and listener.address is "
                        + "\(address.text); make ListenStream= of paytoken-gateway.socket and listener.address the same."
                )
            }
            return .inherited(inherited)
        }
        switch address {
        case .unix(let path, let mode, let group): return .path(path, mode: mode, group: group)
        case .network(let ip, let port):
            guard let address = try? SocketAddress(ipAddress: ip, port: port) else {
                throw .unusable("paytoken-gateway: the configured address is not understood.")
            }
            return .network(address)
        }
    }
}

extension GatewayListenerSettings.Address {
    fileprivate func isOf(_ other: InheritedSocket.Address) -> Bool {
        switch (self, other) {
        case (.unix(let path, _, _), .unix(let inherited)): path == inherited
        case (.network(let ip, let port), .network(let inherited)):
            port == inherited.port && NetworkAddress.packed(ip) == NetworkAddress.packed(inherited.ip)
        default: false
        }
    }

    /// The address as written in the configuration.
    var text: String {
        switch self {
        case .unix(let path, _, _): "unix:\(path)"
        case .network(let ip, let port): NetworkAddress(ip: ip, port: port)?.text ?? "\(ip):\(port)"
        }
    }
}

extension TLSTermination.Settings {
    static func made(_ files: TLSFiles, clients: ClientDirectory) throws(StartFailure) -> Self {
        do {
            return try Self(files, clients: clients)
        } catch {
            throw StartFailure(.configuration, "listener.tls cannot be used: \(error)")
        }
    }
}
