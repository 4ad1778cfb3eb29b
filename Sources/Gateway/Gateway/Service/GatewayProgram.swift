import ConfigurationFile
public import DaemonAPI
import Foundation
import Glibc
import HTTPListener
import HostSystem
import Logging
import NIOPosix
import ProductVersion
import Telemetry
import UnixSignals

/// What the program `paytoken-gateway` does, from its configuration file to its exit status.
public enum GatewayProgram {
    /// How long a stopping gateway lives at most, whatever hangs; what is left of it after the requests is for the log.
    private static let drainTime = Duration.seconds(28)

    /// Prints every problem and every warning of the configuration on standard error.
    ///
    /// - Returns: `done`, or `configuration` when there is a problem.
    public static func check(configurationFile: String) -> ExitStatus {
        do throws(GatewayStartFailure) {
            let configuration = try load(configurationFile, examinesPlaces: true)
            for warning in configuration.warnings { say("\(warning.place): warning: \(warning.message)") }
            return .done
        } catch {
            say(error.message)
            return error.exitStatus
        }
    }

    /// Serves until SIGTERM or SIGINT.
    public static func run(configurationFile: String) async -> ExitStatus {
        await run(configurationFile: configurationFile, identities: nil)
    }

    /// - Parameter identities: where merchants' TLS keys are, instead of in paytokend's tokens; for measuring what these cost.
    package static func run(
        configurationFile: String, identities: (any MerchantIdentitySource)?
    ) async -> ExitStatus {
        let isActivated = InheritedSockets.areInEnvironment
        do throws(GatewayStartFailure) {
            try await serve(configurationFile, identities)
            return .done
        } catch {
            say(error.message)
            if isActivated, error.exitStatus == .tryAgainLater {
                try? await Task.sleep(for: InheritedSockets.pauseBeforeTryingAgain)
            }
            return error.exitStatus
        }
    }

    private static func serve(
        _ file: String, _ identities: (any MerchantIdentitySource)?
    ) async throws(GatewayStartFailure) {
        try harden()
        // Before anything else: a signal that comes early, such as a reload right after the start, must not end the process.
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
        let inherited: InheritedSockets
        do throws(ListenerError) {
            inherited = try InheritedSockets.takeFromEnvironment(named: [GatewayAssembly.inheritedName])
        } catch {
            throw GatewayStartFailure(listener: error)
        }
        let configuration = try load(file)
        let log = StandardErrorLog(configuration.log)
        let logger = log.logger("paytoken-gateway")
        for warning in configuration.warnings {
            logger.warning(
                "\(warning.headline)", metadata: ["place": "\(warning.place)", "reason": "\(warning.message)"])
        }
        let metrics = SessionMetrics(logger: logger)
        let paytokend = PaytokendCalls(configuration.paytokend)
        let sessions = SessionRoutes(
            sessions: try .made(configuration, paytokend: paytokend, identities: identities, observer: metrics),
            maxRequestBytes: configuration.listener.maxRequestBytes)
        let payments = try configuration.payments.map { settings throws(GatewayStartFailure) in
            try PaymentService.made(settings, configuration, paytokend: paytokend, logger: logger)
        }
        let assembly = try GatewayAssembly.make(
            configuration, logger: logger, routes: sessions.routes + (payments?.routes ?? []),
            adminRoutes: sessions.adminRoutes + (payments?.adminRoutes ?? []),
            instruments: [metrics, paytokend.metrics] + (payments.map { [$0.metrics] } ?? []),
            store: payments?.readiness)
        let listener = try await assembly.listen(inherited: inherited[GatewayAssembly.inheritedName])
        let upkeep = payments.map { payments in Task { await payments.upkeep.run() } }
        logger.notice(
            "serving",
            metadata: [
                "version": "\(ProductVersion.current)", "admin_socket": "\(configuration.admin.socket)",
                "address": "\(address(of: listener, configuration))", "tls": "\(assembly.tls != nil)",
                "clients": "\(configuration.clients.count)",
            ])
        let service = ServiceNotification(logger: logger)
        let status = assembly.status(of: service)
        service.notify(.ready, .status("Asking paytokend."))
        let showing = status.start()
        let watchdog = listener.watchedSocket.flatMap {
            ServiceWatchdog.start(service, asking: $0, group: MultiThreadedEventLoopGroup.singleton)
        }
        let reload = GatewayReload(file: file, assembly: assembly, log: log, logger: logger)
        for await signal in signals {
            if signal == .sighup {
                status.reloaded(inForce: reload.run())
                continue
            }
            logger.notice("draining", metadata: ["signal": "\(signal)"])
            break
        }
        showing.cancel()
        service.notify(.stopping, .status("Finishing what is under way."))
        watchdog?.stop()
        let ends = ContinuousClock.now + drainTime
        await listener.shutdown(grace: drainTime)
        await payments?.underWay.wait(until: ends)
        sessions.sessions.close()
        paytokend.close()
        upkeep?.cancel()
        await upkeep?.value
        await payments?.upkeep.storeChanges()
        await payments?.store.close()
        logger.notice("stopped")
        log.flush()
    }

    /// With the port that the system chose, where the configuration says port 0.
    private static func address(of listener: Listener, _ configuration: GatewayConfiguration) -> String {
        listener.networkAddresses.first?.text ?? configuration.listener.address.text
    }

    static func load(
        _ file: String, examinesPlaces: Bool = false
    ) throws(GatewayStartFailure) -> GatewayConfiguration {
        do throws(ConfigurationProblems) {
            return try GatewayConfiguration.load(path: file, examinesPlaces: examinesPlaces)
        } catch {
            throw GatewayStartFailure(.configuration, error.description)
        }
    }

    /// To be called first, while the main thread is the only one.
    public static func forbidNewPrivileges() {
        HardenedProcess.forbidNewPrivileges()
    }

    /// With keys of callers in its memory.
    private static func harden() throws(GatewayStartFailure) {
        guard HardenedProcess.harden() else {
            throw GatewayStartFailure(.defect, "paytoken-gateway: the process cannot be hardened (prctl).")
        }
    }

    private static func say(_ text: String) {
        FileHandle.standardError.write(Data((text + "\n").utf8))
    }
}

/// Why the gateway did not start: the sentence for standard error, and the status it exits with.
struct GatewayStartFailure: Error, Sendable, Equatable {
    let exitStatus: ExitStatus
    let message: String

    init(_ exitStatus: ExitStatus, _ message: String) {
        self.exitStatus = exitStatus
        self.message = message
    }

    init(listener error: ListenerError) {
        let status: ExitStatus = if case .alreadyServed = error { .tryAgainLater } else { .configuration }
        self.init(status, error.description)
    }
}
