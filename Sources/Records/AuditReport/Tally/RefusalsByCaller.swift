public import AuditChain

/// The refused requests, by caller. It also counts those that are recorded only in summary.
public struct RefusalsByCaller: Sendable {
    /// The refusals of one caller.
    public struct Caller: Sendable {
        /// False if no access rule matched the caller.
        public let isKnown: Bool
        public private(set) var count = 0
        public private(set) var first: AuditTime
        public private(set) var last: AuditTime
        /// The records, of which one of the event `refusals` counts several requests.
        public private(set) var records = RecordReferences()
        private var hours: [Int: Hour] = [:]
        /// The refusals with `transaction_replayed` by day.
        fileprivate private(set) var replays: [Int: Replays] = [:]

        fileprivate init(_ entry: AuditEntry) {
            isKnown = entry.caller?.name != nil
            (first, last) = (entry.time, entry.time)
        }

        /// The hour with the most refusals; the earliest of several.
        public var worstHour: (hour: AuditTime, count: Int) {
            let worst = hours.mapValues(\.count).max { ($0.value, $1.key) < ($1.value, $0.key) } ?? (0, 0)
            return (RefusalsByCaller.time(ofHour: worst.key), worst.value)
        }

        fileprivate mutating func take(_ entry: AuditEntry, _ requests: Int) {
            count = count.addingReportingOverflow(requests).partialValue
            (first, last) = (min(first, entry.time), max(last, entry.time))
            records.add(entry)
            hours[KeyUseTally.index(entry.time, 3_600_000), default: Hour()].take(entry, requests)
            guard entry.outcome == "transaction_replayed" else { return }
            replays[KeyUseTally.index(entry.time, 86_400_000), default: Replays(entry)].take(entry)
        }

        /// The hours with at least ``refusalsOfHour`` refusals, by day.
        fileprivate var busyDays: [Int: [(hour: Int, refusals: Hour)]] {
            let busy = hours.filter { $0.value.count >= RefusalsByCaller.refusalsOfHour }.sorted { $0.key < $1.key }
            return Dictionary(
                grouping: busy.map { ($0.key, $0.value) },
                by: { KeyUseTally.index(RefusalsByCaller.time(ofHour: $0.0), 86_400_000) })
        }
    }

    fileprivate struct Hour {
        var count = 0
        var records = RecordReferences()
        /// The time of the first request, or that since which its sum was counted.
        var first: AuditTime?
        var last: AuditTime?

        mutating func take(_ entry: AuditEntry, _ requests: Int) {
            let isSum = entry.event == AuditEvent.Name.refusals.rawValue
            let since = isSum ? entry.details["since"]?.stringValue.flatMap(AuditTime.init(stored:)) : nil
            let begun = min(since ?? entry.time, entry.time)
            (first, last) = (min(first ?? begun, begun), max(last ?? entry.time, entry.time))
            count = count.addingReportingOverflow(requests).partialValue
            records.add(entry)
        }
    }

    /// The refusals with one code.
    struct Reason {
        /// The records of single requests.
        fileprivate(set) var records = RecordReferences()
        /// The number of requests that are recorded only in summary.
        fileprivate(set) var summary = 0
        fileprivate(set) var callers: [String: Int] = [:]
    }

    fileprivate struct Replays {
        var first: AuditTime
        var last: AuditTime
        var records = RecordReferences()
        /// The payments that were sent, at most ``maximumPayments``.
        var payments: Set<AuditDigest> = []

        init(_ entry: AuditEntry) { (first, last) = (entry.time, entry.time) }

        mutating func take(_ entry: AuditEntry) {
            (first, last) = (min(first, entry.time), max(last, entry.time))
            records.add(entry)
            if let payment = entry.transactionId, payments.count < RefusalsByCaller.maximumPayments {
                payments.insert(payment)
            }
        }
    }

    private(set) var reasons: [String: Reason] = [:]
    /// The number of refusals by day. Days are counted from 1970-01-01.
    private(set) var days: [Int: Int] = [:]
    /// The callers by name, or by `uid N`.
    public private(set) var callers: [String: Caller] = [:]
    /// The number of requests of callers beyond ``maximumCallers``.
    public private(set) var omitted = 0

    static let maximumCallers = 2_000
    /// The least replays of one caller on one day that are a finding.
    static let replaysOfDay = 10
    /// The least refusals of one caller in one hour that are a finding.
    static let refusalsOfHour = 100
    private static let maximumPayments = 10_000
    private static let requests: Set<String> = Set(
        [AuditEvent.Name.decrypt, .tlsSignature, .request].map(\.rawValue))

    mutating func take(_ entry: AuditEntry) {
        let name = entry.callerText
        var requests = 1
        if entry.event == AuditEvent.Name.refusals.rawValue {
            requests = max(0, entry.details["count"]?.numberValue?.int ?? 0)
            for member in entry.details["counts"]?.objectValue?.members ?? [] {
                guard let count = member.value.numberValue?.int, count > 0 else { continue }
                reasons[member.name, default: Reason()].take(nil, count, name ?? "–")
            }
        } else {
            guard Self.requests.contains(entry.event), !AuditOutcome.used.contains(entry.outcome) else { return }
            reasons[entry.outcome, default: Reason()].take(entry, 1, name ?? "–")
        }
        let day = KeyUseTally.index(entry.time, 86_400_000)
        days[day] = (days[day] ?? 0).addingReportingOverflow(requests).partialValue
        guard let name else { return }
        guard callers[name] != nil || callers.count < Self.maximumCallers else {
            omitted = omitted.addingReportingOverflow(requests).partialValue
            return
        }
        callers[name, default: Caller(entry)].take(entry, requests)
    }

    private static func time(ofHour hour: Int) -> AuditTime { AuditTime(milliseconds: Int64(hour) * 3_600_000) }

    /// The callers, those with the most refusals first.
    var sortedCallers: [(name: String, caller: Caller)] {
        callers.map { ($0.key, $0.value) }.sorted { left, right in
            left.1.count == right.1.count
                ? left.0.utf8.lexicographicallyPrecedes(right.0.utf8) : left.1.count > right.1.count
        }
    }

    /// A finding for each caller and day with at least ``replaysOfDay`` replays, one for each caller and day with an hour
    /// of at least ``refusalsOfHour`` refusals, and one for all unknown callers.
    var findings: [Finding] {
        let bursts = callers.flatMap { name, caller in
            caller.replays.values.filter { $0.records.count >= Self.replaysOfDay }.map { replays in
                var finding = Finding(.replays, replays.first)
                finding.caller = name
                (finding.since, finding.until) = (replays.first, replays.last)
                finding.count = replays.records.count
                finding.records = replays.records
                finding.payments = replays.payments.count < Self.maximumPayments ? replays.payments.count.ifAny : nil
                return finding
            }
                + caller.busyDays.values.map { hours in
                    let first = hours.compactMap(\.refusals.first).min()
                    var finding = Finding(.manyRefusals, first ?? Self.time(ofHour: hours[0].hour))
                    finding.caller = name
                    (finding.since, finding.until) = (first, hours.compactMap(\.refusals.last).max())
                    finding.count = hours.reduce(0) { $0 + $1.refusals.count }
                    for hour in hours { finding.records.add(hour.refusals.records) }
                    finding.node = finding.records.parts.count == 1 ? finding.records.parts[0].node : nil
                    return finding
                }
        }
        let unknown = sortedCallers.filter { !$0.caller.isKnown }.map(\.caller)
        guard let first = unknown.map(\.first).min() else { return bursts }
        var finding = Finding(.unknownCallers, first)
        (finding.since, finding.until) = (first, unknown.map(\.last).max())
        finding.count = unknown.reduce(0) { $0 + $1.count }
        for caller in unknown { finding.records.add(caller.records) }
        finding.callers = callers.filter { !$0.value.isKnown }.mapValues(\.count)
        return bursts + [finding]
    }
}

extension RefusalsByCaller.Reason {
    /// - Parameter entry: nil for requests that are recorded in summary.
    fileprivate mutating func take(_ entry: AuditEntry?, _ requests: Int, _ caller: String) {
        if let entry {
            records.add(entry)
        } else {
            summary = summary.addingReportingOverflow(requests).partialValue
        }
        guard callers[caller] != nil || callers.count < RefusalsByCaller.maximumCallers else { return }
        callers[caller] = (callers[caller] ?? 0).addingReportingOverflow(requests).partialValue
    }
}
