import AuditChain

/// The refused requests, by caller. It also counts those that are recorded only in summary.
struct RefusalsByCaller: Sendable {
    /// The refusals of one caller.
    struct Caller: Sendable {
        /// False if no access rule matched the caller.
        let isKnown: Bool
        /// The requests. A record of the event `refusals` counts several.
        private(set) var requests = RequestTally()
        private var hours: [Int: RequestTally] = [:]
        /// The refusals with `transaction_replayed` by day.
        fileprivate private(set) var replays: [Int: Replays] = [:]

        fileprivate init(_ entry: AuditEntry) { isKnown = entry.caller?.name != nil }

        /// The hour with the most refusals; the earliest of several.
        var worstHour: (hour: AuditTime, count: Int) {
            let worst = hours.mapValues(\.count).max { ($0.value, $1.key) < ($1.value, $0.key) } ?? (0, 0)
            return (RefusalsByCaller.time(ofHour: worst.key), worst.value)
        }

        fileprivate mutating func take(_ entry: AuditEntry, _ count: Int) {
            requests.take(entry, count)
            let isSum = entry.event == AuditEvent.Name.refusals.rawValue
            hours[KeyUseTally.index(entry.time, 3_600_000), default: RequestTally()].take(
                entry, count,
                since: isSum ? entry.details["since"]?.stringValue.flatMap(AuditTime.init(stored:)) : nil)
            guard entry.outcome == RefusalsByCaller.replayed else { return }
            replays[KeyUseTally.index(entry.time, 86_400_000), default: Replays()].take(entry)
        }

        /// The hours with at least ``refusalsOfHour`` refusals, together for each day.
        fileprivate var busyDays: [RequestTally] {
            let busy = hours.filter { $0.value.count >= RefusalsByCaller.refusalsOfHour }.sorted { $0.key < $1.key }
            return busy.reduce(into: [Int: RequestTally]()) { days, hour in
                let day = KeyUseTally.index(RefusalsByCaller.time(ofHour: hour.key), 86_400_000)
                days[day, default: RequestTally()].add(hour.value)
            }.map(\.value)
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
        var requests = RequestsByKey()
        /// The payments that were sent, at most ``maximumPayments``.
        var payments: Set<AuditDigest> = []
        /// The first replays, fewer than ``replaysOfDay``.
        var first: [(time: AuditTime, place: RecordPlace, key: AuditDigest?, payment: AuditDigest?)] = []

        mutating func take(_ entry: AuditEntry) {
            requests.take(entry)
            if first.count < RefusalsByCaller.replaysOfDay {
                first.append((entry.time, RecordPlace(entry), entry.publicKeyHash, entry.transactionId))
            }
            if let payment = entry.transactionId, payments.count < RefusalsByCaller.maximumPayments {
                payments.insert(payment)
            }
        }
    }

    /// A replay on a day of its caller with fewer than ``replaysOfDay``.
    struct Replay {
        let time: AuditTime
        let place: RecordPlace
        let caller: String
        let key: AuditDigest?
        /// The record that opened the payment first; nil if the export does not have it.
        let opening: Opening?
    }

    /// The record that opened a payment first.
    struct Opening {
        let time: AuditTime
        let place: RecordPlace
        let caller: String
        let key: AuditDigest?
    }

    /// The payments that were sent again, which the first pass has collected, at most ``maximumReplayed``, and their first
    /// openings.
    private var replayedPayments: Set<AuditDigest> = []
    private var openings: [AuditDigest: Opening] = [:]
    private(set) var reasons: [String: Reason] = [:]
    /// The number of refusals by day. Days are counted from 1970-01-01.
    private(set) var days: [Int: Int] = [:]
    /// The callers by name, or by `uid N`.
    private(set) var callers: [String: Caller] = [:]
    /// The number of requests of callers beyond ``maximumCallers``.
    private(set) var omitted = 0

    static let maximumCallers = 2_000
    /// The least replays of one caller on one day that are a finding.
    static let replaysOfDay = 10
    /// The least refusals of one caller in one hour that are a finding, or in the period for reasons that no other has.
    static let refusalsOfHour = 100
    private static let (maximumPayments, maximumReplayed) = (10_000, 200_000)
    private static let replayed = "transaction_replayed"
    private static let requests: Set<String> = Set(
        [AuditEvent.Name.decrypt, .tlsSignature, .request].map(\.rawValue))

    /// Takes note, in the first pass, of a payment that was sent again.
    mutating func survey(_ entry: AuditEntry) {
        guard let payment = entry.transactionId, replayedPayments.count < Self.maximumReplayed else { return }
        replayedPayments.insert(payment)
    }

    /// Takes a record of any time, which may have opened a payment that was sent again.
    mutating func take(opening entry: AuditEntry) {
        guard entry.event == AuditEvent.Name.decrypt.rawValue, entry.outcome == AuditOutcome.ok.text,
            let payment = entry.transactionId, replayedPayments.contains(payment)
        else { return }
        let found = Opening(
            time: entry.time, place: RecordPlace(entry), caller: entry.callerText ?? "–", key: entry.publicKeyHash)
        if let known = openings[payment], (known.time, known.place) <= (found.time, found.place) { return }
        openings[payment] = found
    }

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
            let (first, second) = (left.1.requests.count, right.1.requests.count)
            return first == second ? left.0.utf8.lexicographicallyPrecedes(right.0.utf8) : first > second
        }
    }

    /// The replays that are in no finding, in order of time.
    var singleReplays: [Replay] {
        callers.flatMap { name, caller in
            caller.replays.values.filter { $0.requests.count < Self.replaysOfDay }.flatMap { replays in
                replays.first.map { replay in
                    Replay(
                        time: replay.time, place: replay.place, caller: name, key: replay.key,
                        opening: replay.payment.flatMap { openings[$0] })
                }
            }
        }.sorted { ($0.time, $0.place) < ($1.time, $1.place) }
    }

    /// A finding for each caller and day with at least ``replaysOfDay`` replays, one for each caller and day with an hour
    /// of at least ``refusalsOfHour`` refusals, one for each with reasons of its own, and one for all unknown callers.
    var findings: [Finding] {
        let bursts = callers.flatMap { name, caller in
            caller.replays.values.filter { $0.requests.count >= Self.replaysOfDay }.map { burst($0, of: name) }
                + caller.busyDays.map { requests in
                    var finding = Finding(.manyRefusals, requests, of: name)
                    finding.node = requests.records.onlyNode
                    return finding
                }
        }
        let unknown = sortedCallers.filter { !$0.caller.isKnown }
        guard !unknown.isEmpty else { return bursts + ownRefusals }
        let requests = unknown.reduce(into: RequestTally()) { $0.add($1.caller.requests) }
        var finding = Finding(.unknownCallers, requests, of: nil)
        finding.callers = Dictionary(uniqueKeysWithValues: unknown.map { ($0.name, $0.caller.requests.count) })
        return bursts + ownRefusals + [finding]
    }

    /// A finding for each known caller with at least ``refusalsOfHour`` refusals for reasons that no other known caller had.
    private var ownRefusals: [Finding] {
        let known = callers.filter(\.value.isKnown)
        guard known.count > 1 else { return [] }
        var codes: [String: [String: Int]] = [:]
        for (code, reason) in reasons {
            let counts = reason.callers.filter { known[$0.key] != nil }
            if let only = counts.first, counts.count == 1 { codes[only.key, default: [:]][code] = only.value }
        }
        return codes.compactMap { name, codes in
            let count = codes.values.reduce(0, +)
            guard count >= Self.refusalsOfHour, let first = known[name]?.requests.first else { return nil }
            var finding = Finding(.ownRefusals, first)
            (finding.caller, finding.count, finding.codes) = (name, count, codes)
            return finding
        }
    }

    /// Returns the finding of a day's replays, with the callers that had opened the payments first.
    private func burst(_ replays: Replays, of caller: String) -> Finding {
        var finding = Finding(.replays, replays.requests.requests, of: caller)
        finding.keys = replays.requests.keys
        guard replays.payments.count < Self.maximumPayments else { return finding }
        let opened = replays.payments.compactMap { openings[$0] }.sorted { ($0.time, $0.place) < ($1.time, $1.place) }
        for opening in opened {
            finding.openers[opening.caller, default: RequestsByKey()].take(opening.place, at: opening.time, opening.key)
        }
        (finding.payments, finding.unopened) = (replays.payments.count.ifAny, replays.payments.count - opened.count)
        return finding
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
