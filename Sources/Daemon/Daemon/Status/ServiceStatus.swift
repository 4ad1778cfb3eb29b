import DaemonAPI
import HostSystem

/// Of the daemon: whether payments are served and, if not, why, as `/readyz` says it.
extension ServiceStatus {
    /// - Parameter servedKeys: how many keys open payments now.
    convenience init(
        service: ServiceNotification, findings: @escaping @Sendable () async -> Readiness.Findings,
        servedKeys: @escaping @Sendable () -> Int
    ) {
        self.init(service: service) {
            let findings = await findings()
            guard findings.reasons.isEmpty else {
                return .notReady(findings.reasons.map { ($0.component, $0.message) }, warnings: findings.warnings)
            }
            let keys = servedKeys()
            return Condition(
                sentences: ["Serving payments for \(keys) \(keys == 1 ? "key" : "keys")."], warnings: findings.warnings)
        }
    }
}
