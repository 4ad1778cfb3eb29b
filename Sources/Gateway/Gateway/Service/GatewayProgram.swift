package import DaemonAPI
import HTTPListener
import Logging
import ProductVersion
import ServerProgram

/// The program `paytoken-gateway`, from its configuration file to its exit status.
package enum GatewayProgram {
    package static func check(configurationFile: String) -> ExitStatus {
        ServingGateway.check(configurationFile: configurationFile)
    }

    /// Serves until SIGTERM or SIGINT.
    ///
    /// - Parameter identities: a source of merchants' TLS keys that replaces paytokend's HSM tokens; nil to use the HSM
    ///   tokens. A measurement passes a source, to compare the cost of sessions with and without HSM tokens.
    package static func run(
        configurationFile: String, identities: (any MerchantIdentitySource)? = nil
    ) async -> ExitStatus {
        await ServingGateway.run(configurationFile: configurationFile) { configuration, start throws(StartFailure) in
            try await .start(configuration, start, identities)
        }
    }
}

/// A serving gateway: the listener, and the parts that run with it until it is stopped.
struct ServingGateway: ServingProgram {
    static let name = "paytoken-gateway"
    /// The name of the socket for merchants' backends in paytoken-gateway.socket.
    static let socketNames = [name]
    static let firstStatus = "Asking paytokend."

    let parts: GatewayAssembly
    let listener: Listener
    var watchedSocket: WatchedSocket? { listener.watchedSocket }
    private let sessions: MerchantSessions
    private let payments: PaymentService?
    private let paytokend: PaytokendCalls
    private let upkeep: Task<Void, Never>?

    /// The maximum time for which a stopping gateway waits for requests in progress. A stop may take 30 s; in the
    /// remaining time, the gateway stores changes, closes the store and writes its log.
    private static let drainTime = Duration.seconds(28)

    static func start(
        _ configuration: GatewayConfiguration, _ start: ProgramStart, _ identities: (any MerchantIdentitySource)?
    ) async throws(StartFailure) -> ServingGateway {
        let logger = start.logger
        let metrics = SessionMetrics(logger: logger)
        let paytokend = PaytokendCalls(configuration.paytokend)
        let sessions = SessionRoutes(
            sessions: try .made(configuration, paytokend: paytokend, identities: identities, observer: metrics),
            maxRequestBytes: configuration.listener.maxRequestBytes)
        let payments = try configuration.payments.map { settings throws(StartFailure) in
            try PaymentService.configured(by: settings, configuration, paytokend: paytokend, logger: logger)
        }
        let assembly = try GatewayAssembly.make(
            configuration, logger: logger, routes: sessions.routes + (payments?.routes ?? []),
            adminRoutes: sessions.adminRoutes + (payments?.adminRoutes ?? PaymentAdministration.routesWithoutPayments),
            instruments: [metrics, paytokend.metrics] + (payments.map { [$0.metrics] } ?? []),
            store: payments?.readiness)
        let listener = try await start.listen { () throws(ListenerError) in
            try assembly.sockets(inherited: start.inherited[name])
        }
        logger.notice(
            "serving",
            metadata: [
                "version": "\(ProductVersion.current)", "admin_socket": "\(configuration.admin.socket)",
                // Shows the port that the system chose, if the configuration says port 0.
                "address": "\(listener.networkAddresses.first?.text ?? configuration.listener.address.text)",
                "tls": "\(assembly.tls != nil)", "clients": "\(configuration.clients.count)",
            ])
        return ServingGateway(
            parts: assembly, listener: listener, sessions: sessions.sessions, payments: payments, paytokend: paytokend,
            upkeep: payments.map { payments in Task { await payments.upkeep.run() } })
    }

    func failure() async -> StartFailure? { nil }

    func stop(after failure: StartFailure?) async {
        let ends = ContinuousClock.now + Self.drainTime
        await listener.shutdown(grace: Self.drainTime)
        await payments?.paymentSlots.wait(until: ends)
        sessions.close()
        paytokend.close()
        upkeep?.cancel()
        await upkeep?.value
        await payments?.upkeep.storeUnstoredChanges()
        await payments?.store.close()
    }
}
