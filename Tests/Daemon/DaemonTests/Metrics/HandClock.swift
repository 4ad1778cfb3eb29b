import Locks

/// A clock that advances only on request.
final class HandClock: Sendable {
    private let instant = Mutex(ContinuousClock.now)

    var now: ContinuousClock.Instant { instant.withLock { $0 } }

    func pass(_ duration: Duration) { instant.withLock { $0 += duration } }
}
