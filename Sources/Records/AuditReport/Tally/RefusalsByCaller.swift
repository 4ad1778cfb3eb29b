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
        private var hours: [Int: Int] = [:]
        /// The refusals with `transaction_replayed` by day.
        fileprivate private(set) var replays: [Int: Replays] = [:]

        fileprivate init(_ entry: AuditEntry) {
            isKnown = entry.caller?.name != nil
            (first, last) = (entry.time, entry.time)
        }

        /// The hour with the most refusals; the earliest of several.
        public var worstHour: (hour: AuditTime, count: Int) {
            let worst = hours.max { ($0.value, $1.key) < ($1.value, $0.key) } ?? (0, 0)
            return (RefusalsByCaller.time(ofHour: worst.key), worst.value)
        }

        fileprivate mutating func take(_ entry: AuditEntry, _ requests: Int) {
            count = count.addingReportingOverflow(requests).partialValue
            (first, last) = (min(first, entry.time), max(last, entry.time))
            records.add(entry)
            hours[KeyUseTally.index(entry.time, 3_600_000), default: 0] += requests
            guard entry.outcome == "transaction_replayed" else { return }
            replays[KeyUseTally.index(entry.time, 86_400_000), default: Replays(entry)].take(entry)
        }

        /// The hours with at least ``refusalsOfHour`` refusals, by day.
        fileprivate var busyDays: [Int: [(hour: Int, count: Int)]] {
            Dictionary(
                grouping: hours.filter { $0.value >= RefusalsByCaller.refusalsOfHour }.sorted { $0.key < $1.key }.map {
                    ($0.key, $0.value)
                },
                by: { KeyUseTally.index(AuditTime(milliseconds: Int64($0.0) * 3_600_000), 86_400_000) })
        }
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
        guard let name = entry.callerText else { return }
        let requests: Int
        if entry.event == AuditEvent.Name.refusals.rawValue {
            requests = max(0, entry.details["count"]?.numberValue?.int ?? 0)
        } else {
            guard Self.requests.contains(entry.event), !AuditOutcome.used.contains(entry.outcome) else { return }
            requests = 1
        }
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
                    var finding = Finding(.manyRefusals, Self.time(ofHour: hours[0].hour))
                    finding.caller = name
                    (finding.since, finding.until) = (finding.time, Self.time(ofHour: hours[hours.count - 1].hour + 1))
                    finding.count = hours.reduce(0) { $0 + $1.count }
                    return finding
                }
        }
        let unknown = sortedCallers.filter { !$0.caller.isKnown }.map(\.caller)
        guard let first = unknown.map(\.first).min() else { return bursts }
        var finding = Finding(.unknownCallers, first)
        (finding.since, finding.until) = (first, unknown.map(\.last).max())
        finding.count = unknown.reduce(0) { $0 + $1.count }
        for caller in unknown { finding.records.add(caller.records) }
        return bursts + [finding]
    }
}
