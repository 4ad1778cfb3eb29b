import Synchronization

/// Which requests of unknown senders get a log line of their own. They cost their sender nothing, so without a bound whoever
/// reaches the port could fill the log; the metric counts each of them all the same.
final class UnauthorizedLines: Sendable {
    /// One line for each address in this time.
    static let interval = Duration.seconds(10)
    /// So many addresses have a line of their own; beyond them all others have one together.
    static let mostAddresses = 1024

    private struct Entry {
        var loggedAt: ContinuousClock.Instant
        var leftOut = 0
    }

    /// By address; "" for all others together.
    private let entries = Mutex<[String: Entry]>([:])

    /// Nil where there is to be no line; else how many of this address were left out since its last one.
    func next(from address: String, now: ContinuousClock.Instant = .now) -> Int? {
        entries.withLock { entries in
            var name = address
            if entries[name] == nil, entries.count >= Self.mostAddresses {
                entries = entries.filter { now - $0.value.loggedAt < Self.interval }
                if entries.count >= Self.mostAddresses { name = "" }
            }
            guard let known = entries[name], now - known.loggedAt < Self.interval else {
                return entries.updateValue(Entry(loggedAt: now), forKey: name)?.leftOut ?? 0
            }
            entries[name]?.leftOut += 1
            return nil
        }
    }
}
