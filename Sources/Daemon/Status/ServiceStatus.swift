import DaemonAPI
import HostSystem
import Synchronization

/// What `systemctl status` shows of the daemon (`STATUS=`): whether payments are served and, if not, why, as `/readyz` says it.
final class ServiceStatus: Sendable {
    private struct Shown {
        var text = ""
        var reloadWasRefused = false
    }

    private let service: ServiceNotification
    private let findings: @Sendable () async -> Readiness.Findings
    private let servedKeys: @Sendable () -> Int
    private let shown = Mutex(Shown())

    /// How long a change takes at most to be shown.
    private static let pause = Duration.seconds(5)

    /// - Parameter servedKeys: how many keys open payments now.
    init(
        service: ServiceNotification, findings: @escaping @Sendable () async -> Readiness.Findings,
        servedKeys: @escaping @Sendable () -> Int
    ) {
        self.service = service
        self.findings = findings
        self.servedKeys = servedKeys
    }

    /// Looks only where the service manager listens: each look asks the ledger.
    func start() -> Task<Void, Never> {
        guard service.socket != nil else { return Task {} }
        return Task.repeating(every: Self.pause) { await self.show() }
    }

    /// `systemctl reload` cannot fail by what the daemon finds: it ends when the signal has been sent.
    func reloaded(inForce: Bool) {
        shown.withLock { $0.reloadWasRefused = !inForce }
        guard service.socket != nil else { return }
        // Not waited for: a signal to stop may be next, and a look at a ledger that hangs takes a while.
        Task { await show() }
    }

    func show() async {
        let findings = await findings()
        guard !Task.isCancelled else { return }
        let changed = shown.withLock { shown -> String? in
            let text = Self.text(findings, servedKeys: servedKeys(), reloadWasRefused: shown.reloadWasRefused)
            defer { shown.text = text }
            return text == shown.text ? nil : text
        }
        if let changed { service.notify(.status(changed)) }
    }

    static func text(_ findings: Readiness.Findings, servedKeys: Int, reloadWasRefused: Bool) -> String {
        var sentences: [String] = []
        if findings.reasons.isEmpty {
            sentences.append("Serving payments for \(servedKeys) \(servedKeys == 1 ? "key" : "keys").")
        } else {
            sentences.append("Not ready.")
            sentences += findings.reasons.map { "\($0.component): \($0.message)" }
        }
        if reloadWasRefused {
            sentences.append(
                "The last reload was refused, and the configuration before it stays in force: the journal says why.")
        }
        return (sentences + findings.warnings).joined(separator: " ")
    }
}
