import Logging
import Synchronization

/// Logs why requests are answered with 503: at once when a fault begins, then at most every ten seconds with the number
/// of requests, and once when the fault has ended, at the first success after an outage.
///
/// A thousand refused requests a second take one line. So does a fault that comes and goes within a second, for example
/// when a disk's last blocks are used and freed: it has ended when it has been absent for a second.
///
/// A component has one fault at a time, for any reasons, which may differ between requests (a refusal may name the
/// number of waiting calls). The line has the reason of the request that triggers it and counts all requests since the
/// previous line.
final class FaultLog: Sendable {
    private struct Fault {
        var loggedAt: ContinuousClock.Instant
        /// The number of requests since the last log line, for any reason.
        var unlogged = 0
        /// The time of the first request since the last success.
        var lastingSince: ContinuousClock.Instant
        /// The time of the first success since the last failure; nil while the fault lasts.
        var awaySince: ContinuousClock.Instant?
    }

    /// The component name of the ledger in fault log lines.
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

    /// Returns true if the component had a fault when it was last used.
    func isOngoing(_ component: String) -> Bool {
        faults.withLock { faults in faults[component].map { $0.awaySince == nil } ?? false }
    }

    /// Records that the component was used without a fault.
    func ended(_ component: String) {
        let hasEnded = faults.withLock { faults -> Bool in
            // Without a fault, the usual case, this is a single lookup.
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
