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
            return Condition(
                sentences: Self.sentences(findings, servedKeys: servedKeys()), warnings: findings.warnings)
        }
    }

    private static func sentences(_ findings: Readiness.Findings, servedKeys: Int) -> [String] {
        guard !findings.reasons.isEmpty else {
            return ["Serving payments for \(servedKeys) \(servedKeys == 1 ? "key" : "keys")."]
        }
        return ["Not ready."] + findings.reasons.map { "\($0.component): \($0.message)" }
    }
}
