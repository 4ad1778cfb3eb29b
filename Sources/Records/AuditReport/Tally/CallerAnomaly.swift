public import AuditChain

/// Unusual activity of a caller. It proves nothing, but gives an assessor a reason to ask.
public enum CallerAnomaly {
    /// An hour with far more uses than in any hour of the four weeks before it.
    public struct BusyHour: Sendable, Equatable {
        public let caller: String
        public let hour: AuditTime
        public let uses: Int
        /// The highest number of uses in one hour of the preceding four weeks.
        public let most: Int
    }

    /// The first use of a key by a caller that had used other keys for four weeks.
    public struct NewKey: Sendable, Equatable {
        public let caller: String
        public let key: AuditDigest
        public let first: AuditTime
    }

    static let weeks = 4
    /// The minimum uses of a busy hour: `least`, and more than `factor` times the uses of the busiest hour in the
    /// preceding four weeks.
    static let (factor, least) = (3, 20)

    static func busyHours(_ uses: KeyUseTally) -> [BusyHour] {
        var found: [BusyHour] = []
        for (caller, hours) in uses.hoursOfCallers.sorted(by: { $0.key < $1.key }) {
            let sorted = hours.sorted { $0.key < $1.key }
            guard let beginning = sorted.first?.key else { continue }
            // The hours of the preceding four weeks with more uses than any later hour. The first is therefore the
            // busiest of all.
            var window: [(hour: Int, uses: Int)] = []
            let span = weeks * 7 * 24
            for (hour, count) in sorted {
                while let first = window.first, first.hour < hour - span { window.removeFirst() }
                if hour - beginning >= span, let most = window.first?.uses, count >= least, count > factor * most {
                    found.append(
                        BusyHour(
                            caller: caller, hour: AuditTime(milliseconds: Int64(hour) * 3_600_000), uses: count,
                            most: most))
                }
                while let last = window.last, last.uses <= count { window.removeLast() }
                window.append((hour, count))
            }
        }
        return found
    }

    /// An hour with uses although the caller had no use at that hour of the day in the preceding four weeks.
    public struct UnusualHour: Sendable, Equatable {
        public let caller: String
        public let hour: AuditTime
        public let uses: Int
    }

    static func unusualHours(_ uses: KeyUseTally) -> [UnusualHour] {
        var found: [UnusualHour] = []
        for (caller, hours) in uses.hoursOfCallers.sorted(by: { $0.key < $1.key }) {
            let sorted = hours.sorted { $0.key < $1.key }
            guard let beginning = sorted.first?.key else { continue }
            let span = weeks * 7 * 24
            var last: [Int: Int] = [:]
            for (hour, count) in sorted {
                let timeOfDay = (hour % 24 + 24) % 24
                let before = last.updateValue(hour, forKey: timeOfDay)
                guard hour - beginning >= span, count >= least, before.map({ $0 < hour - span }) ?? true else {
                    continue
                }
                found.append(
                    UnusualHour(
                        caller: caller, hour: AuditTime(milliseconds: Int64(hour) * 3_600_000), uses: count))
            }
        }
        return found
    }

    static func newKeys(_ uses: KeyUseTally) -> [NewKey] {
        var beginnings: [String: AuditTime] = [:]
        for (pair, use) in uses.uses {
            guard let caller = pair.caller, let first = use.firstUse else { continue }
            beginnings[caller] = min(beginnings[caller] ?? first, first)
        }
        let span = Int64(weeks) * 7 * 86_400_000
        return uses.uses.compactMap { pair, use in
            guard let caller = pair.caller, let key = pair.key, let first = use.firstUse,
                let beginning = beginnings[caller], first.milliseconds - beginning.milliseconds >= span
            else { return nil }
            return NewKey(caller: caller, key: key, first: first)
        }.sorted { ($0.first, $0.caller, $0.key.hex) < ($1.first, $1.caller, $1.key.hex) }
    }
}
