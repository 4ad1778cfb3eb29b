import DaemonAPI
import HostSystem

/// The daemon's status for the service manager. It states the same reasons for not being ready as `/readyz`.
extension ServiceStatus {
    /// - Parameter servedKeys: a function that returns the number of keys with which payments can be decrypted now.
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
