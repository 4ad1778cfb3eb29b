import AuditChain

/// A node's seals in a time of which the export has none, by HSM tokens' logs, and the uses in no record between them.
///
/// A node seals its record a minute after the oldest record without a seal, after 1,000 records, or when a person asks for
/// a head (`CheckpointSchedule`).
struct LostSeals {
    /// The seals, in order. An ordinary one came about a minute after the first use since the seal before.
    private(set) var seals: [(time: AuditTime, isOrdinary: Bool)] = []
    /// The seals before which no use can have been recorded since the seal before.
    private(set) var withoutUse = 0
    /// The uses after the last seal.
    private(set) var later: Int

    private static let age: Int64 = 60_000

    /// - Parameters:
    ///   - times: the times of the seals, in order.
    ///   - uses: those of the uses, in order.
    init(_ times: [AuditTime], _ uses: [AuditTime]) {
        // The uses before the seal before, and those of them whose records it has sealed for certain.
        var (before, sealed) = (0, 0)
        for time in times {
            let end = uses.firstIndex(notBefore: time)
            let isOrdinary =
                before < end
                && abs(time.milliseconds - uses[before].milliseconds - Self.age) <= TokenUseLog.margin
            seals.append((time, isOrdinary))
            if sealed == end { withoutUse += 1 }
            before = end
            sealed = uses.firstIndex(notBefore: AuditTime(milliseconds: time.milliseconds - UseMatching.earliest))
        }
        later = uses.count - before
    }
}

extension Reconciliation {
    /// Returns the seals of a node during a loss of its records, or between two seals of the export, by the logs of its audit
    /// keys.
    ///
    /// - Parameter logs: the numbers of the logs; nil for all.
    func lostSeals(of loss: Finding, in logs: [Int]? = nil) -> LostSeals {
        let logs = (logs ?? Array(self.logs.indices)).filter { (self.logs[$0].node ?? loss.node) == loss.node }
        let seals = logs.flatMap { self.seals(during: loss, in: self.logs[$0]) }.sorted()
        guard !seals.isEmpty else { return LostSeals([], []) }
        let uses = logs.flatMap { within(loss, of: $0, areSeals: false).flatMap(\.times) }.sorted()
        return LostSeals(seals, uses)
    }

    private func seals(during loss: Finding, in log: TokenUseLog) -> [AuditTime] {
        guard let since = loss.lastSeal ?? loss.since, let until = loss.until else { return [] }
        let first = AuditTime(milliseconds: since.milliseconds + TokenUseLog.margin + 1)
        let end = AuditTime(milliseconds: until.milliseconds - TokenUseLog.margin)
        guard first < end else { return [] }
        return auditKeys.filter { $0.value == loss.node }.flatMap { key, _ -> ArraySlice<AuditTime> in
            let times = log.times[key] ?? []
            return times[times.firstIndex(notBefore: first)..<times.firstIndex(notBefore: end)]
        }
    }
}
