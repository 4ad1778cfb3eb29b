import Synchronization

/// A clock that stands until time is let pass.
final class HandClock: Sendable {
    private let instant = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { instant.withLock { $0 } }

    func pass(_ duration: Duration) { instant.withLock { $0 += duration } }
}
