import ConfigurationFile
import Foundation
import Logging
import ProductVersion
import Synchronization
import Telemetry

/// The configuration in force, of which SIGHUP replaces what can change under a running gateway: clients, the server's
/// certificate and key, client authorities, `admin.access` and the log level. Everything else needs a restart and stays as it was started.
final class LiveGatewayConfiguration: Sendable {
    private let inForce: Mutex<GatewayConfiguration>
    private let instruments: GatewayInstruments

    init(_ configuration: GatewayConfiguration, instruments: GatewayInstruments) {
        inForce = Mutex(configuration)
        self.instruments = instruments
        show(configuration)
    }

    var current: GatewayConfiguration { inForce.withLock { $0 } }

    /// - Returns: the sections in which `new` differs and the old one stays in force until a restart.
    func replace(with new: GatewayConfiguration) -> [String] {
        let (configuration, pending) = inForce.withLock { configuration in
            let pending = configuration.restartOnlyDifferences(from: new)
            configuration.takeWhatMayChange(from: new)
            return (configuration, pending)
        }
        show(configuration)
        return pending
    }

    private func show(_ configuration: GatewayConfiguration) {
        instruments.show(configuration.warnings)
        if let files = configuration.listener.tls {
            instruments.certificateNotAfter.set(["server"], to: files.notAfter.timeIntervalSince1970)
        }
    }

    func status(startedAt: Date, tls: TLSTermination.Settings?, connections: Int) -> GatewayStatus {
        let configuration = current
        return GatewayStatus(
            version: ProductVersion.current, startedAt: startedAt,
            listener: GatewayStatus.Listener(
                address: configuration.listener.address.text, tls: tls != nil, certificateNotAfter: tls?.notAfter,
                requestsClientCertificates: tls?.requestsCertificates ?? false),
            connections: connections, paytokendSocket: configuration.paytokend.socket,
            sessionHost: configuration.sessions.environment.host.name,
            clients: configuration.clients.map { client in
                GatewayStatus.Client(
                    name: client.name, credential: client.credentials.map(\.kind).joined(separator: ", "),
                    operations: client.operations.map(\.rawValue).sorted(), merchants: client.merchants.map(\.text),
                    domains: client.domains)
            },
            insecureSettings: configuration.warnings.filter(\.setting.isInsecure).map {
                GatewayStatus.Warning(setting: $0.setting.rawValue, place: $0.place, message: $0.message)
            })
    }
}

extension GatewayConfiguration {
    fileprivate func restartOnlyDifferences(from new: GatewayConfiguration) -> [String] {
        let sameListener =
            listener.address == new.listener.address && (listener.tls == nil) == (new.listener.tls == nil)
            && listener.maxRequestBytes == new.listener.maxRequestBytes
        return [
            ("listener", sameListener), ("limits", limits == new.limits), ("paytokend", paytokend == new.paytokend),
            ("sessions", sessions == new.sessions), ("store, deadline, processors", payments == new.payments),
            ("admin", admin.isSameSocket(as: new.admin)),
            ("log.format", log.format == new.log.format),
        ].filter { !$0.1 }.map(\.0)
    }

    fileprivate mutating func takeWhatMayChange(from new: GatewayConfiguration) {
        // All insecure settings but clients' are of sections that stay.
        (clients, admin.access, log.level) = (new.clients, new.admin.access, new.log.level)
        if listener.tls != nil, let files = new.listener.tls { listener.tls = files }
    }
}

/// SIGHUP: clients, certificates, `admin.access` and the log level are read again, all or nothing. On open connections the new
/// rules apply from the next request on.
struct GatewayReload: Sendable {
    let file: String
    let assembly: GatewayAssembly
    let log: StandardErrorLog
    let logger: Logger

    /// - Returns: whether the file's configuration is in force now.
    @discardableResult
    func run() -> Bool {
        do throws(GatewayStartFailure) {
            let configuration = try GatewayProgram.load(file)
            let directory = ClientDirectory(
                configuration.clients, generation: assembly.clients.current.generation + 1)
            var settings: TLSTermination.Settings?
            if assembly.tls != nil {
                guard let files = configuration.listener.tls else {
                    throw GatewayStartFailure(
                        .configuration, "listener.tls is gone, and stays in use until a restart; restart the gateway.")
                }
                settings = try .made(files, clients: directory)
            } else if let client = configuration.clients.first(where: \.usesCertificate) {
                throw GatewayStartFailure(
                    .configuration,
                    "\(client.name) proves itself by a certificate, which needs a restart with listener.tls.")
            }
            // Nothing can fail from here on. A handshake between these lines is verified under authorities of one generation and
            // asked for under the other, and its certificate counts for nothing then.
            if let settings { assembly.tls?.replace(with: settings) }
            assembly.clients.replace(with: directory)
            let pending = assembly.live.replace(with: configuration)
            log.level = configuration.log.level
            assembly.instruments.reloads.increment(["ok"])
            logger.notice("configuration reloaded", metadata: ["file": "\(file)"])
            if !pending.isEmpty {
                logger.warning(
                    "these settings were changed too, and stay as they were until a restart",
                    metadata: ["sections": "\(pending.joined(separator: ", "))"])
            }
            return true
        } catch {
            assembly.instruments.reloads.increment(["refused"])
            logger.error(
                "configuration not reloaded; the one in force stays",
                metadata: ["file": "\(file)", "reason": "\(error.message)"])
            return false
        }
    }
}
