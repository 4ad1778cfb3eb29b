import AuditChain

/// The uses of one key in an HSM token's log, matched in order of time with the records that explain them.
///
/// A record has the time at which its call had ended, so the use comes first, within the call's time: `call_timeout`, 10 s
/// by default, and as long again for a repetition. An audit checkpoint has the time before its signature. Clocks differ by
/// up to ``TokenUseLog/margin``. Each record explains one use. The number of matches is the greatest possible, so a use
/// remains only if no assignment of the records explains it.
struct UseMatching {
    /// The greatest number of milliseconds by which a use precedes its record's time, and by which it follows.
    static let (earliest, latest): (Int64, Int64) = (
        2 * callTimeout + TokenUseLog.margin, callTimeout + TokenUseLog.margin
    )
    private static let callTimeout: Int64 = 10_000
    /// The most records that are searched for the use that is furthest from all of them.
    private static let maximumChain = 1_000

    private let uses: [AuditTime]
    private let records: [AuditTime]
    /// The uses that remain, by their indices.
    private var isLeft: [Bool]
    /// The times of the records that remain, in order.
    private(set) var unused: [AuditTime] = []

    /// - Parameters:
    ///   - uses: the times of the uses, in order.
    ///   - records: the times of the records, in order; one that may be of two uses is there twice.
    init(uses: [AuditTime], records: [AuditTime]) {
        (self.uses, self.records) = (uses, records)
        isLeft = Array(repeating: false, count: uses.count)
        match()
    }

    /// The times of the uses that no record explains, in order.
    var unexplained: [AuditTime] { uses.indices.filter { isLeft[$0] }.map { uses[$0] } }

    /// Gives each use the first record that is left and near enough. All records explain an equally long time, so no other
    /// order explains more uses. If a use finds none, the use before it that is furthest from all records gives up its own,
    /// if later uses can then move up by one record each.
    private mutating func match() {
        // The use of each record, and the first record that was left for each use.
        var (useOf, recordFor) = (Array(repeating: -1, count: records.count), Array(repeating: 0, count: uses.count))
        var (use, record) = (0, 0)
        while use < uses.count {
            recordFor[use] = record
            guard !isLeft[use] else {
                use += 1
                continue
            }
            let time = uses[use].milliseconds
            while record < records.count, records[record].milliseconds + Self.latest < time {
                useOf[record] = -1
                record += 1
            }
            if record < records.count, records[record].milliseconds - Self.earliest <= time {
                useOf[record] = use
                record += 1
                use += 1
                continue
            }
            let furthest = furthest(from: use, useOf[..<record])
            isLeft[furthest] = true
            (use, record) = (furthest, recordFor[furthest])
        }
        unused = records.indices.filter { $0 >= record || useOf[$0] < 0 }.map { records[$0] }
    }

    private func furthest(from use: Int, _ useOf: ArraySlice<Int>) -> Int {
        var (furthest, first, longest) = (use, use, distance(use))
        for record in useOf.indices.suffix(Self.maximumChain).reversed() {
            guard records[record].milliseconds + Self.latest >= uses[first].milliseconds else { break }
            let other = useOf[record]
            guard other >= 0 else { continue }
            first = other
            let length = distance(other)
            if length > longest { (furthest, longest) = (other, length) }
        }
        return furthest
    }

    /// Returns the milliseconds between a use and the nearest record.
    private func distance(_ use: Int) -> Int64 {
        let after = records.firstIndex(notBefore: uses[use])
        return records[max(0, after - 1)..<min(records.count, after + 1)].map {
            abs($0.milliseconds - uses[use].milliseconds)
        }.min() ?? .max
    }
}

/// The records directly before and after certain times.
struct NearestRecords: Sendable {
    private let times: [AuditTime]
    /// The earliest and the latest record of each gap: those after the time before its number, and up to the time with it.
    private var gaps: [(earliest: RecordMoment, latest: RecordMoment)?]

    init(_ times: [AuditTime]) {
        self.times = Set(times).sorted()
        gaps = Array(repeating: nil, count: self.times.count + 1)
    }

    var isEmpty: Bool { times.isEmpty }

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
    func firstIndex(notBefore time: AuditTime) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < time { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
