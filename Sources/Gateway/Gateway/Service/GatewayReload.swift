import ConfigurationFile
import ServerProgram

/// Reloading at SIGHUP. It replaces clients, the server's certificate and key, client authorities, `admin.access` and
/// the log level. Everything else needs a restart.
extension GatewayConfiguration {
    func fixedParts(in new: GatewayConfiguration) -> [(name: String, isUnchanged: Bool)] {
        let sameListener =
            listener.address == new.listener.address && (listener.tls == nil) == (new.listener.tls == nil)
            && listener.maxRequestBytes == new.listener.maxRequestBytes
        return [
            ("listener", sameListener), ("limits", limits == new.limits), ("paytokend", paytokend == new.paytokend),
            ("sessions", sessions == new.sessions), ("store, deadline, processors", payments == new.payments),
            ("admin", admin.isSameSocket(as: new.admin)),
        ]
    }

    mutating func applyReloadableParts(from new: GatewayConfiguration) {
        // Sections that only a restart replaces keep their old values, and therefore their old warnings.
        warnings = warnings.filter { !$0.setting.isReloadable } + new.warnings.filter(\.setting.isReloadable)
        (clients, admin.access, log.level) = (new.clients, new.admin.access, new.log.level)
        if listener.tls != nil, let files = new.listener.tls { listener.tls = files }
    }
}

extension GatewayAssembly: ReloadableParts {
    func reload(
        with new: GatewayConfiguration
    ) async throws(StartFailure) -> (pending: [String], warnings: [ConfigurationWarning]) {
        let directory = ClientDirectory(new.clients, generation: clients.current.generation + 1)
        var settings: TLSTermination.Settings?
        if tls != nil {
            guard let files = new.listener.tls else {
                throw StartFailure(
                    .configuration, "listener.tls was removed, but stays in use until a restart; restart the gateway.")
            }
            settings = try .made(files, clients: directory)
        } else if let client = new.clients.first(where: \.usesCertificate) {
            throw StartFailure(
                .configuration,
                "\(client.name) authenticates with a certificate, which needs a restart with listener.tls.")
        }
        // Nothing can fail from here on. A handshake that takes place between the two replacements is verified with the
        // authorities of one generation but checked against the other, so its certificate is not accepted.
        if let settings { tls?.replace(with: settings) }
        clients.replace(with: directory)
        let pending = live.applyReloadableParts(from: new)
        instruments.show(live.current)
        instruments.reloads.increment(["ok"])
        return (pending, live.current.warnings)
    }

    func reloadRefused() async { instruments.reloads.increment(["refused"]) }
}
