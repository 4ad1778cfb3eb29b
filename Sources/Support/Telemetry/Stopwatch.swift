import Locks

/// The time since an event last happened, or since the start if the event has not happened.
///
/// Alerts use this time for events that should recur by themselves. It becomes long if the event fails or hangs, and
/// also if the event has never happened.
package final class Stopwatch: Sendable {
    private let now: @Sendable () -> ContinuousClock.Instant
    private let last: Mutex<ContinuousClock.Instant>

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
        last = Mutex(now())
    }

    package var elapsed: Duration { last.withLock { $0.duration(to: now()) } }

    /// Sets the time back to zero, since the event has just happened.
    package func restart() {
        let now = now()
        last.withLock { $0 = now }
    }
}
