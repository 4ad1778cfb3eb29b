import Logging
import Synchronization

/// Says in the log why requests are being answered with 503: at once when it begins, then at most every ten seconds
/// with how often, and once when it is over. A thousand refused requests a second need one line, not a thousand.
final class TroubleLog: Sendable {
    private struct Trouble {
        var reason: String
        var saidAt: ContinuousClock.Instant
        var unsaid = 0
    }

    /// As the log names the ledger.
    static let ledger = "ledger"

    private static let pause = Duration.seconds(10)
    private let logger: Logger
    private let troubles = Mutex<[String: Trouble]>([:])

    init(logger: Logger) {
        self.logger = logger
    }

    /// - Parameters:
    ///   - component: `ledger`, `token primary`.
    ///   - reason: one sentence, never a stranger's bytes.
    func met(_ component: String, _ reason: String) {
        let now = ContinuousClock.now
        let count = troubles.withLock { troubles -> Int? in
            if var known = troubles[component], known.reason == reason, now - known.saidAt < Self.pause {
                known.unsaid += 1
                troubles[component] = known
                return nil
            }
            let unsaid = troubles[component]?.unsaid ?? 0
            troubles[component] = Trouble(reason: reason, saidAt: now)
            return unsaid + 1
        }
        guard let count else { return }
        logger.error(
            "unavailable", metadata: ["component": "\(component)", "reason": "\(reason)", "requests": "\(count)"])
    }

    /// Whether it was in trouble when it was last used.
    func isMet(_ component: String) -> Bool {
        troubles.withLock { $0[component] != nil }
    }

    func over(_ component: String) {
        // The usual case takes no more than a look.
        guard troubles.withLock({ $0.removeValue(forKey: component) }) != nil else { return }
        logger.notice("available again", metadata: ["component": "\(component)"])
    }
}
