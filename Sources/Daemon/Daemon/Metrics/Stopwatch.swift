import Synchronization

/// How long ago something last happened; since the daemon's start, where it has not.
///
/// For what must come again and again by itself: its age alone tells of a failure, of a hang, and of what never came.
final class Stopwatch: Sendable {
    private let now: @Sendable () -> ContinuousClock.Instant
    private let last: Mutex<ContinuousClock.Instant>

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
        last = Mutex(now())
    }

    var elapsed: Duration { last.withLock { $0.duration(to: now()) } }

    /// It has happened.
    func restart() {
        let now = now()
        last.withLock { $0 = now }
    }
}
