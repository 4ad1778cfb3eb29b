import Logging
import Synchronization

/// Says in the log why requests are being answered with 503: at once when it begins, then at most every ten seconds
/// with how often, and once when it is over. A thousand refused requests a second need one line, not a thousand, and so
/// does trouble that comes and goes, as at a disk's last free blocks: it is over when it has stayed away for a second.
final class FaultLog: Sendable {
    private struct Trouble {
        var reason: String
        var saidAt: ContinuousClock.Instant
        var unsaid = 0
        /// Since when it stays away; nil while it is there.
        var awaySince: ContinuousClock.Instant?
    }

    /// As the log names the ledger.
    static let ledger = "ledger"

    private static let pause = Duration.seconds(10)
    private static let rest = Duration.seconds(1)
    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    private let faults = Mutex<[String: Trouble]>([:])

    init(logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.logger = logger
        self.now = now
    }

    /// - Parameters:
    ///   - component: `ledger`, `token primary`.
    ///   - reason: one sentence, never a stranger's bytes.
    func met(_ component: String, _ reason: String) {
        let now = now()
        let count = faults.withLock { faults -> Int? in
            if var known = faults[component], known.reason == reason, now - known.saidAt < Self.pause {
                known.unsaid += 1
                known.awaySince = nil
                faults[component] = known
                return nil
            }
            let unsaid = faults[component]?.unsaid ?? 0
            faults[component] = Trouble(reason: reason, saidAt: now)
            return unsaid + 1
        }
        guard let count else { return }
        logger.error(
            "unavailable", metadata: ["component": "\(component)", "reason": "\(reason)", "requests": "\(count)"])
    }

    /// Whether it was in trouble when it was last used.
    func isMet(_ component: String) -> Bool {
        faults.withLock { faults in faults[component].map { $0.awaySince == nil } ?? false }
    }

    /// It was used, and went well.
    func over(_ component: String) {
        let isOver = faults.withLock { faults -> Bool in
            // The usual case takes no more than a look.
            guard let trouble = faults[component] else { return false }
            let now = now()
            guard let since = trouble.awaySince else {
                faults[component]?.awaySince = now
                return false
            }
            guard now - since >= Self.rest else { return false }
            faults[component] = nil
            return true
        }
        guard isOver else { return }
        logger.notice("available again", metadata: ["component": "\(component)"])
    }
}
