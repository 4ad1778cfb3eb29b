import Locks
import Logging

/// Decides which events of a kind are logged. Since a source can cause any number of events, it could fill the log
/// without a limit. Metrics still count all events.
package final class BoundedLines<Source: Hashable & Sendable>: Sendable {
    /// The period in which each source gets one line.
    package static var interval: Duration { .seconds(10) }
    /// The number of sources with their own lines; all others share one. Even with lines of a kilobyte, which is more
    /// than any line has, one kind of event writes at most 300 megabytes a day.
    package static var maximumSources: Int { 32 }

    /// The kind of a line, and the number of events that it omits.
    package enum Line: Equatable, Sendable {
        /// The number of this source's events omitted since its last line.
        case own(leftOut: Int)
        /// The source has no line of its own, because there are too many sources; the number of omitted events of all
        /// such sources.
        case shared(leftOut: Int)
    }

    private struct Entry {
        var loggedAt: ContinuousClock.Instant
        var leftOut = 0
    }

    private struct State {
        var entries: [Source: Entry] = [:]
        /// The entry that all sources without an entry in `entries` share.
        var others: Entry?
        /// The time of the last search for silent sources; a search at each event would cost too much.
        var clearedAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    package init() {}

    /// Counts an event. Returns the kind of its log line, or nil if the event must not be logged. The next line of the
    /// source reports the omitted events. If no further line follows, only the metric contains them.
    package func next(from source: Source, now: ContinuousClock.Instant = .now) -> Line? {
        state.withLock { state in
            if state.entries[source] == nil, state.entries.count >= Self.maximumSources {
                if state.clearedAt.map({ now - $0 >= Self.interval }) ?? true {
                    state.clearedAt = now
                    state.entries = state.entries.filter { now - $0.value.loggedAt < Self.interval }
                }
                if state.entries.count >= Self.maximumSources {
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
    /// Adds the number of lines omitted before this one.
    package mutating func add<Source>(_ line: BoundedLines<Source>.Line) {
        switch line {
        case .own(leftOut: 0), .shared(leftOut: 0): break
        case .own(let count): self["refusal.left_out"] = "\(count)"
        case .shared(let count): self["refusal.left_out_of_others"] = "\(count)"
        }
    }
}
