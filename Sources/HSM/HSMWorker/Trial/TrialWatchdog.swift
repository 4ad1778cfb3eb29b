import Locks

/// Limits the time of calls into a library that may never return. Only the end of the process ends such a call, so the
/// owner of this object ends the process.
final class TrialWatchdog: Sendable {
    private struct Limit {
        let end: ContinuousClock.Instant
        let call: String
    }

    private let limit = Mutex<Limit?>(nil)
    private static let pause = 0.05

    /// Starts the thread that watches.
    /// - Parameter expired: Receives the name of the call that took too long, and ends the process.
    func start(_ expired: @escaping @Sendable (String) -> Void) {
        BlockingThread.start("watchdog") { [self] in
            while true {
                BlockingThread.sleep(Self.pause)
                let late = limit.withLock { limit in limit.flatMap { $0.end < .now ? $0.call : nil } }
                if let late { return expired(late) }
            }
        }
    }

    /// Makes a call that must return within `duration`. Calls do not nest.
    func limiting<Value, Failure: Error>(
        _ duration: Duration, _ call: String, _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        limit.withLock { $0 = Limit(end: .now + duration, call: "\(call): no answer within \(duration)") }
        defer { limit.withLock { $0 = nil } }
        return try body()
    }
}
