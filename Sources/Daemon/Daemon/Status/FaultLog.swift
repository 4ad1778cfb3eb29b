import Logging
import Synchronization

/// Logs why requests are being answered with 503: at once when a fault begins, then at most every ten seconds with the
/// number of requests, and once when it has ended: at the first success after an outage. A thousand refused requests a second
/// take one line, and so does a fault that comes and goes within a second, as with a disk's last free blocks: it has ended when
/// it has stayed away for a second.
///
/// A component has one fault at a time, whatever the reasons: they may differ with each request, as when a refusal says how
/// many calls wait. The line has the reason of the request with which it is logged, and counts all since the line before.
final class FaultLog: Sendable {
    private struct Fault {
        var loggedAt: ContinuousClock.Instant
        /// Requests since then, for whatever reason.
        var unlogged = 0
        /// The first request since the last success.
        var lastingSince: ContinuousClock.Instant
        /// Since when it stays away; nil while it is there.
        var awaySince: ContinuousClock.Instant?
    }

    /// As the log names the ledger.
    static let ledger = "ledger"

    private static let pause = Duration.seconds(10)
    private static let rest = Duration.seconds(1)
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let faults = Mutex<[String: Fault]>([:])

    init(logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.logger = logger
        self.now = now
    }

    /// - Parameters:
    ///   - component: `ledger`, `token primary`.
    ///   - reason: one sentence, never an untrusted caller's bytes.
    func began(_ component: String, _ reason: String) {
        let now = now()
        let count = faults.withLock { faults -> Int? in
            var fault = faults[component] ?? Fault(loggedAt: now - Self.pause, lastingSince: now)
            if fault.awaySince != nil { fault.lastingSince = now }
            fault.awaySince = nil
            fault.unlogged += 1
            defer { faults[component] = fault }
            guard now - fault.loggedAt >= Self.pause else { return nil }
            defer { (fault.loggedAt, fault.unlogged) = (now, 0) }
            return fault.unlogged
        }
        guard let count else { return }
        logger.error(
            "unavailable", metadata: ["component": "\(component)", "reason": "\(reason)", "requests": "\(count)"])
    }

    /// Whether the component had a fault when it was last used.
    func isOngoing(_ component: String) -> Bool {
        faults.withLock { faults in faults[component].map { $0.awaySince == nil } ?? false }
    }

    /// The component was used without a fault.
    func ended(_ component: String) {
        let hasEnded = faults.withLock { faults -> Bool in
            // The usual case takes no more than a look.
            guard let fault = faults[component] else { return false }
            let now = now()
            if let since = fault.awaySince {
                guard now - since >= Self.rest else { return false }
            } else if now - fault.lastingSince < Self.rest {
                faults[component]?.awaySince = now
                return false
            }
            faults[component] = nil
            return true
        }
        guard hasEnded else { return }
        logger.notice("available again", metadata: ["component": "\(component)"])
    }
}
