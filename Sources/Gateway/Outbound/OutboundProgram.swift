import ConfigurationFile
package import DaemonAPI
import HTTPListener
import HostSystem
import Logging
import ProductVersion
import ServerProgram
import Telemetry

/// The program `paytoken-outbound`, from its configuration file to its exit status: the only program that makes
/// requests to Apple's App Store Connect API. It is a caller of paytokend with the role `portal-read`, and listens on
/// nothing.
///
/// Start reading at WorkLoop.swift.
package enum OutboundProgram {
    package static func check(configurationFile: String) -> ExitStatus {
        RunningOutbound.check(configurationFile: configurationFile)
    }

    /// Works until SIGTERM or SIGINT.
    package static func run(configurationFile: String) async -> ExitStatus {
        await RunningOutbound.run(configurationFile: configurationFile) { configuration, start throws(StartFailure) in
            try .start(configuration, start)
        }
    }
}

/// The running program: the loop, and the configuration in force.
struct RunningOutbound: ServingProgram {
    static let name = "paytoken-outbound"
    static let socketNames: [String] = []
    static let firstStatus = "Waiting for work from paytokend."

    let parts: OutboundParts
    private let loop: Task<Void, Never>

    var watchedSocket: WatchedSocket? { nil }

    static func start(
        _ configuration: OutboundConfiguration, _ start: ProgramStart
    ) throws(StartFailure) -> RunningOutbound {
        let appStoreConnect: AppStoreConnect
        do {
            appStoreConnect = try AppStoreConnect(configuration.appStoreConnect)
        } catch {
            throw StartFailure(.configuration, "app_store_connect.trust cannot be used: \(error)")
        }
        let loop = WorkLoop(
            paytokend: UnixSocketClient(
                path: configuration.paytokend.socket, maximumAnswerBytes: 64 << 10,
                deadline: configuration.paytokend.timeout),
            appStoreConnect: appStoreConnect, logger: start.logger)
        start.logger.notice("working", metadata: ["version": "\(ProductVersion.current)"])
        return RunningOutbound(
            parts: OutboundParts(live: Current(configuration)), loop: Task { await loop.run() })
    }

    func failure() async -> StartFailure? { nil }

    func stop(after failure: StartFailure?) async {
        loop.cancel()
        await loop.value
    }
}

struct OutboundParts: ReloadableParts {
    let live: Current<OutboundConfiguration>

    func reload(
        with new: OutboundConfiguration
    ) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning]) {
        (live.applyReloadableParts(from: new), new.warnings)
    }

    func reloadRefused() async {}

    func status(of service: ServiceNotification) -> ServiceStatus {
        ServiceStatus(service: service) { .init(sentences: ["Asking paytokend for work."]) }
    }
}
