import Locks
package import Logging

/// Logs the faults that make the daemon answer requests with 503. A fault is logged when it begins, then at most every
/// ten seconds with the number of requests, and when it has ended.
///
/// A thousand refused requests in a second therefore cause one line. A fault that has lasted for a second ends at the
/// first success. A shorter fault ends only after a second without a failure. Thus a fault that comes and goes, for
/// example on a disk that is almost full, causes one line too.
///
/// A component has at most one fault at a time. The reasons of its failures may differ between requests, for example in the
/// number of waiting calls. A line has the reason of the request that causes the line, and counts all requests since the
/// previous line.
package final class FaultLog: Sendable {
    private struct Fault {
        var loggedAt: ContinuousClock.Instant
        /// The number of failed requests since the last log line, for any reason.
        var unlogged = 0
        /// The time of the first failure since the last success.
        var lastingSince: ContinuousClock.Instant
        /// The time of the first success since the last failure; nil while the fault lasts.
        var awaySince: ContinuousClock.Instant?
    }

    /// The component name of the ledger in fault log lines.
    package static let ledger = "ledger"

    private static let pause = Duration.seconds(10)
    private static let rest = Duration.seconds(1)
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let faults = Mutex<[String: Fault]>([:])

    package init(logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.logger = logger
        self.now = now
    }

    /// Notes that a request failed because of a component.
    /// - Parameters:
    ///   - component: the component's name, such as `ledger` or `token primary`.
    ///   - reason: one sentence. It must not contain an untrusted caller's bytes.
    package func began(_ component: String, _ reason: String) {
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

    /// Returns true if the component's last use failed.
    func isOngoing(_ component: String) -> Bool {
        faults.withLock { faults in faults[component].map { $0.awaySince == nil } ?? false }
    }

    /// Notes that the component was used without a failure.
    package func ended(_ component: String) {
        let hasEnded = faults.withLock { faults -> Bool in
            // Usually the component has no fault, and the function ends here.
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
