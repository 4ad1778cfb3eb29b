import Logging
import Synchronization

/// Decides which events of a kind get a log line, where their source can cause as many as it likes: without a bound it could
/// fill the log. Metrics count each of them all the same.
package final class BoundedLines<Source: Hashable & Sendable>: Sendable {
    /// One line for each source in this time.
    package static var interval: Duration { .seconds(10) }
    /// So many sources have a line of their own; beyond them all others have one together. With lines of a kilobyte, which none here
    /// reaches, one kind of event writes at most 300 megabytes a day.
    package static var mostSources: Int { 32 }

    /// What a line says besides.
    package enum Line: Equatable, Sendable {
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
        var entries: [Source: Entry] = [:]
        /// Of all others together.
        var others: Entry?
        /// When those that have been silent were last looked for: looking at all is too much for each request.
        var clearedAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    package init() {}

    /// Nil where there is to be no line. What was left out of a source that comes no more is in the metric only.
    package func next(from source: Source, now: ContinuousClock.Instant = .now) -> Line? {
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

extension Logger.Metadata {
    /// Says how many lines were left out before this one.
    package mutating func add<Source>(_ line: BoundedLines<Source>.Line) {
        switch line {
        case .own(leftOut: 0), .shared(leftOut: 0): break
        case .own(let count): self["refusal.left_out"] = "\(count)"
        case .shared(let count): self["refusal.left_out_of_others"] = "\(count)"
        }
    }
}
