import HTTPListener
import Synchronization

/// Which requests of unknown senders get a log line of their own. They cost their sender nothing, so without a bound whoever
/// reaches the port could fill the log; the metric counts each of them all the same.
final class UnauthorizedLines: Sendable {
    /// One line for each source in this time.
    static let interval = Duration.seconds(10)
    /// So many sources have a line of their own; beyond them all others have one together.
    static let mostSources = 1024

    /// What a line says besides.
    enum Line: Equatable {
        /// So many of this source were left out since its last line.
        case own(leftOut: Int)
        /// There are too many sources: of all without a line of their own so many were left out.
        case shared(leftOut: Int)
    }

    private struct Entry {
        var loggedAt: ContinuousClock.Instant
        var leftOut = 0
    }

    private struct State {
        var entries: [ConnectionSource: Entry] = [:]
        /// Of all others together.
        var others: Entry?
        /// When those that have been silent were last looked for: looking at all is too much for each request.
        var clearedAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    /// Nil where there is to be no line. What was left out of a source that comes no more is in the metric only.
    ///
    /// - Parameter source: what its connections are counted by, so that a host with a network of addresses is one.
    func next(from source: ConnectionSource, now: ContinuousClock.Instant = .now) -> Line? {
        state.withLock { state in
            if state.entries[source] == nil, state.entries.count >= Self.mostSources {
                if state.clearedAt.map({ now - $0 >= Self.interval }) ?? true {
                    state.clearedAt = now
                    state.entries = state.entries.filter { now - $0.value.loggedAt < Self.interval }
                }
                if state.entries.count >= Self.mostSources {
                    return Self.take(&state.others, now).map { .shared(leftOut: $0) }
                }
            }
            return Self.take(&state.entries[source], now).map { .own(leftOut: $0) }
        }
    }

    private static func take(_ entry: inout Entry?, _ now: ContinuousClock.Instant) -> Int? {
        if let known = entry, now - known.loggedAt < interval {
            entry?.leftOut += 1
            return nil
        }
        defer { entry = Entry(loggedAt: now) }
        return entry?.leftOut ?? 0
    }
}
