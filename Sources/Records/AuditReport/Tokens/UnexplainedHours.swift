import AuditChain

/// The hours of one log that have more uses of a key than the record explains: their uses without a record, and the
/// records nearest to these. The third pass reads the export for them.
struct UnexplainedHours: Sendable {
    /// The uses of a key in one hour of a log.
    struct Hour: Sendable {
        /// The number of uses by the log, and the maximum by the record.
        let counted: Int
        let most: Int
        /// The number of uses for which no record within ``TokenUseLog/margin`` was found, and the first and the last.
        let uses: Int
        let first: AuditTime
        let last: AuditTime
        let before: RecordMoment?
        let after: RecordMoment?
    }

    /// The uses of a key in these hours and in the hours next to them, in order of time, and those that have a record.
    private struct Uses {
        let times: [AuditTime]
        var explained: Set<Int> = []
    }

    private let log: TokenUseLog
    private let found: [(key: AuditDigest, hour: Int, most: Int)]
    /// The hours whose records may explain one of the uses.
    private let searched: Set<Int>
    private var uses: [AuditDigest: Uses]
    private var nearest: NearestRecords

    init(_ found: [(key: AuditDigest, hour: Int, most: Int)], in log: TokenUseLog) {
        (self.log, self.found) = (log, found)
        let around = found.map { (key: $0.key, hours: Set([$0.hour - 1, $0.hour, $0.hour + 1])) }
        searched = around.reduce(into: []) { $0.formUnion($1.hours) }
        uses = Dictionary(grouping: around, by: \.key).reduce(into: [:]) { uses, key in
            let hours = key.value.reduce(into: Set<Int>()) { $0.formUnion($1.hours) }
            uses[key.key] = Uses(times: hours.flatMap { log.hours[key.key]?[$0] ?? [] }.sorted())
        }
        nearest = NearestRecords(found.flatMap { log.hours[$0.key]?[$0.hour] ?? [] })
    }

    var isEmpty: Bool { found.isEmpty }

    mutating func take(_ line: [UInt8], of record: RecordMoment) {
        guard !isEmpty, log.node == nil || log.node == record.place.node else { return }
        nearest.take(record)
        guard searched.contains(KeyUseTally.index(record.time, 3_600_000)), let entry = try? AuditEntry(line: line),
            let key = entry.publicKeyHash, let most = Reconciliation.uses(of: entry)?.most,
            log.covers(node: entry.node, token: entry.hsmToken, at: entry.time) != nil
        else { return }
        for _ in 0..<most { explain(key, at: entry.time) }
    }

    /// Takes the use that is nearest to the time of a record or checkpoint as explained by it, if one is near enough.
    mutating func explain(_ key: AuditDigest, at time: AuditTime) {
        guard let known = uses[key] else { return }
        func distance(_ use: Int) -> Int64 { abs(known.times[use].milliseconds - time.milliseconds) }
        let start = known.times.firstIndex(notBefore: AuditTime(milliseconds: time.milliseconds - TokenUseLog.margin))
        let near = (start..<known.times.count).prefix { distance($0) <= TokenUseLog.margin }
        if let use = near.filter({ !known.explained.contains($0) }).min(by: { distance($0) < distance($1) }) {
            uses[key]?.explained.insert(use)
        }
    }

    /// Returns the hours of one key and day, in order of time.
    func hours(of day: Reconciliation.UnexplainedDay) -> [Hour] {
        found.filter { ($0.key, Reconciliation.day(ofHour: $0.hour)) == (day.key, day.day) }.compactMap(hour)
            .sorted { $0.first < $1.first }
    }

    private func hour(of key: AuditDigest, _ hour: Int, _ most: Int) -> Hour? {
        guard let known = uses[key], let counted = log.hours[key]?[hour]?.count else { return nil }
        let start = known.times.firstIndex(notBefore: AuditTime(milliseconds: Int64(hour) * 3_600_000))
        let left = (start..<known.times.count).prefix { KeyUseTally.index(known.times[$0], 3_600_000) == hour }
            .filter { !known.explained.contains($0) }.map { known.times[$0] }
        guard let first = left.first, let last = left.last else { return nil }
        return Hour(
            counted: counted, most: most, uses: left.count, first: first, last: last, before: nearest.before(first),
            after: nearest.after(last))
    }
}

/// The records directly before and after certain times.
private struct NearestRecords: Sendable {
    private let times: [AuditTime]
    /// The earliest and the latest record of each gap: those after the time before its number, and up to the time with it.
    private var gaps: [(earliest: RecordMoment, latest: RecordMoment)?]

    init(_ times: [AuditTime]) {
        self.times = Set(times).sorted()
        gaps = Array(repeating: nil, count: self.times.count + 1)
    }

    mutating func take(_ record: RecordMoment) {
        let gap = times.firstIndex(notBefore: record.time)
        gaps[gap] = gaps[gap].map { (min($0.earliest, record), max($0.latest, record)) } ?? (record, record)
    }

    /// Returns the latest record up to one of the times.
    func before(_ time: AuditTime) -> RecordMoment? {
        gaps[...times.firstIndex(notBefore: time)].last { $0 != nil }.flatMap { $0?.latest }
    }

    /// Returns the earliest record after one of the times.
    func after(_ time: AuditTime) -> RecordMoment? {
        gaps[(times.firstIndex(notBefore: time) + 1)...].first { $0 != nil }.flatMap { $0?.earliest }
    }
}

extension [AuditTime] {
    /// Returns the number of elements that are earlier than the time, in an array that is in order of time.
    fileprivate func firstIndex(notBefore time: AuditTime) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < time { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
