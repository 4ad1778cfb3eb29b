import AuditChain

/// Unusual activity of callers. It proves nothing, but gives an assessor a reason to ask.
enum CallerAnomaly {
    static let weeks = 4
    /// The minimum uses of a busy hour: `least`, and more than `factor` times the uses of the busiest hour in the
    /// preceding four weeks.
    static let (factor, least) = (3, 20)

    private static let span = weeks * 7 * 24

    /// Returns the busy and the unusual hours. An hour that is both is one finding.
    static func hours(_ uses: KeyUseTally) -> [Finding] {
        let unusual = unusualHours(uses)
        let busy = busyHours(uses).map { finding in
            var busy = finding
            busy.isUnusual = unusual.contains { ($0.caller, $0.time) == (finding.caller, finding.time) }
            return busy
        }
        return busy + unusual.filter { hour in !busy.contains { ($0.caller, $0.time) == (hour.caller, hour.time) } }
    }

    /// Returns the hours with far more uses than any hour of the four weeks before.
    static func busyHours(_ uses: KeyUseTally) -> [Finding] {
        uses.hoursOfCallers.flatMap { caller, hours -> [Finding] in
            let sorted = hours.sorted { $0.key < $1.key }
            var found: [Finding] = []
            // The hours of the preceding four weeks with more uses than any later hour. The first is therefore the
            // busiest of all.
            var window: [(hour: Int, uses: Int)] = []
            for (hour, requests) in sorted {
                let count = requests.count
                while let first = window.first, first.hour < hour - span { window.removeFirst() }
                if hour - sorted[0].key >= span, let most = window.first?.uses, count >= least, count > factor * most {
                    var finding = finding(.busyHour, of: caller, hour, requests)
                    finding.usual = most
                    found.append(finding)
                }
                while let last = window.last, last.uses <= count { window.removeLast() }
                window.append((hour, count))
            }
            return found
        }
    }

    /// Returns the hours with uses although the caller had no use at that hour of the day in the preceding four weeks.
    static func unusualHours(_ uses: KeyUseTally) -> [Finding] {
        uses.hoursOfCallers.flatMap { caller, hours -> [Finding] in
            let sorted = hours.sorted { $0.key < $1.key }
            var last: [Int: Int] = [:]
            return sorted.compactMap { hour, requests -> Finding? in
                let before = last.updateValue(hour, forKey: (hour % 24 + 24) % 24)
                guard hour - sorted[0].key >= span, requests.count >= least, before.map({ $0 < hour - span }) ?? true
                else { return nil }
                return finding(.unusualHour, of: caller, hour, requests)
            }
        }
    }

    /// Returns the first uses of keys by callers that had used other keys for four weeks.
    ///
    /// - Parameter activation: returns the time from which a key was in use. A rotation explains the first use of a key
    ///   that was new itself.
    static func firstUses(_ uses: KeyUseTally, activation: (AuditDigest) -> AuditTime?) -> [Finding] {
        var beginnings: [String: AuditTime] = [:]
        for (pair, use) in uses.uses {
            guard let caller = pair.caller, let first = use.firstUse else { continue }
            beginnings[caller] = min(beginnings[caller] ?? first, first)
        }
        return uses.uses.compactMap { pair, use -> Finding? in
            guard let caller = pair.caller, let key = pair.key, let first = use.firstUse,
                let beginning = beginnings[caller], isLong(from: beginning, to: first),
                activation(key).map({ isLong(from: $0, to: first) }) ?? true
            else { return nil }
            var finding = Finding(.firstUse, first)
            (finding.caller, finding.key) = (caller, key)
            return finding
        }
    }

    private static func isLong(from start: AuditTime, to end: AuditTime) -> Bool {
        end.milliseconds - start.milliseconds >= Int64(span) * 3_600_000
    }

    private static func finding(
        _ kind: Finding.Kind, of caller: String, _ hour: Int, _ uses: RequestsByKey
    ) -> Finding {
        var finding = Finding(kind, AuditTime(milliseconds: Int64(hour) * 3_600_000))
        (finding.caller, finding.count, finding.records) = (caller, uses.count, uses.requests.records)
        (finding.since, finding.until) = (uses.requests.first, uses.requests.last)
        (finding.keys, finding.node) = (uses.keys, uses.requests.records.onlyNode)
        return finding
    }
}
